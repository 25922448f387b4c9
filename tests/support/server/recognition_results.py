"""Results of a recogniser, made from text in which marks follow characters.

recognition_results.make("你好，吗？", [0.1, 0.35, 0.6])
"""

MARKS = "，。？！、；："


def remove_marks(text: str) -> str:
    return text.translate(str.maketrans("", "", MARKS))


def make(text, times, confidence=0.5, has_marks=True):
    """Returns a result with a character of 40 ms at each time; a space belongs to the character after it.

    If `has_marks` is False, the result is that of an export without a punctuation model.
    """
    items = []
    for part in text.replace(" ", ""):
        if part in MARKS:
            items[-1]["mark"] = part
        else:
            start = round(times[len(items)], 3)
            item = {"character": part, "pinyin": f"{part}1", "start": start, "end": round(start + 0.04, 3)}
            items.append({**item, "confidence": confidence, **({"mark": ""} if has_marks else {})})
    transcript = remove_marks(text)
    return {
        "transcript": transcript,
        **({"punctuated": text} if has_marks else {}),
        "pinyin": " ".join(item["pinyin"] for item in items),
        "acoustic_score": -1.5,
        "language_score": -2.0,
        "confidence": confidence if items else 0.0,
        "characters": items,
        "status": "ok",
        "n_best": [{"transcript": transcript, "score": -1.0}, {"transcript": "差", "score": -3.0}],
    }
