"""When marks and numbers settle in live text; loud samples are speech."""

import random
import time
import types

import numpy as np
import pytest
import recognition_results

from estimator_asr.serving.transcripts import captions, live, live_writing, written_text
from estimator_asr_runtime import written_form

RATE = 16000
FORM = written_form.load()
MARKS = recognition_results.MARKS


def speech(seconds, level=0.5):
    return np.full(round(RATE * seconds), level, np.float32)


def make_result(marked, times, start):
    """Returns a result from text in which marks follow characters; `times` are seconds in the recording."""
    return recognition_results.make(marked, [time - start for time in times], 0.95)


class Speaker:
    """A live recording in which a character is spoken every 0.2 s, from 0.1 s on."""

    def __init__(self, punctuate=None):
        info = types.SimpleNamespace(
            frontend=types.SimpleNamespace(sample_rate=RATE),
            acoustic=types.SimpleNamespace(decode={}),
            chunk_seconds=0.3,
        )
        self.plain = live.LiveTranscript(info, is_streaming=True)
        self.text = live_writing.LiveWriting(self.plain, RATE, punctuate or types.SimpleNamespace(form=FORM))

    def hear(self, marked, seconds=0.5, times=None):
        """Adds audio, updates the text with a result, and returns the update."""
        self.plain.add(speech(seconds))
        return self.update(marked, times)

    def update(self, marked, times=None):
        window = self.plain.take()
        start = window.start / RATE
        times = times or [start + 0.1 + 0.2 * i for i in range(len(marked))]
        return self.text.update(window, make_result(marked, times, start))


@pytest.fixture(autouse=True)
def _no_hold(monkeypatch, loud_is_speech):
    monkeypatch.setattr(live, "HOLD_SECONDS", 0.0)


def test_a_mark_settles_when_five_characters_have_followed():
    speaker = Speaker()
    assert speaker.hear("你好。", 1.0).stable == ""
    update = speaker.hear("你好，我们今天")
    assert (update.stable, update.partial, update.num_stable) == ("你", "好，我们今天", 2)
    update = speaker.hear("你好，我们今天去")
    assert (update.stable, update.partial, update.first, update.num_stable) == ("你好，", "我们今天去", 1, 6)
    assert [item["mark"] for item in update.characters] == ["，", "", "", "", "", ""]
    update = speaker.hear("你好？我们今天去哪")
    assert (update.stable, update.partial, update.first) == ("你好，我", "们今天去哪", 2)
    assert [item["character"] for item in update.characters] == list("我们今天去哪")


def test_the_end_of_a_segment_settles_everything():
    speaker = Speaker()
    speaker.hear("你好", 1.0)
    speaker.hear("你好吗")
    speaker.plain.end()
    update = speaker.update("你好，吗？")
    assert (update.stable, update.partial) == ("你好，吗？", "")
    (segment,) = speaker.plain.segments
    assert written_text.write(segment, FORM).result["transcript"] == "你好，吗？"


def test_marks_of_settled_characters_may_still_change_for_a_while():
    """A character has settled, but a later result has another mark after it."""
    speaker = Speaker()
    speaker.hear("你好，我", 1.0)
    speaker.hear("你好，我们")
    update = speaker.hear("你好！我们今")
    assert (update.stable, update.partial, update.num_stable) == ("", "你好！我们今", 4)


def test_a_number_that_may_go_on_does_not_settle():
    """The rules for numbers may read five characters beyond a number."""
    speaker, stable = Speaker(), {}
    text = "他说二十三个好人来了吧对不对啊好的行"
    for count in range(4, len(text) + 1):
        update = speaker.hear(text[:count], 1.0 if count == 4 else 0.5)
        assert update.stable + update.partial == FORM.write(text[:count])
        stable[count] = update.stable
    assert (stable[6], stable[7], stable[15], stable[16]) == ("他", "他说", "他说", "他说23个好人来了吧")


def test_written_characters_have_marks_and_numbers():
    """A number counts as one character, which lasts from its first spoken character to its last."""
    speaker, shown, settled = Speaker(), [], []
    text = "他说二十三个好人来了，吧对不对啊好的行"
    for count in range(4, len(text) + 1):
        speaker.hear(text[:count], 1.0 if count == 4 else 0.5)
        written = speaker.text.written
        assert shown[: written["first"]] == settled
        shown = settled + written["characters"]
        settled = shown[: written["num_stable"]]
    assert [item["character"] for item in settled] == [*"他说", "23", *"个好人来", "了，", *"吧对不"]
    assert settled[2] == {"character": "23", "start": 0.5, "end": 0.94}
    speaker.plain.end()
    speaker.update(text)
    assert [item["character"] for item in speaker.text.written["characters"]] == list("对啊好的行")


def test_the_settled_text_of_two_segments():
    speaker = Speaker()
    speaker.plain.add(speech(1.0))
    speaker.plain.add(speech(1.5, 0.0))
    assert speaker.update("三十个。").stable == "30个。"
    speaker.plain.add(speech(1.0))
    update = speaker.update("好了")
    assert (update.stable, update.partial, update.first) == ("30个。", "好了", 3)
    speaker.plain.end()
    assert speaker.update("好了？").stable == "30个。好了？"
    assert [segment.result["punctuated"] for segment in speaker.plain.segments] == ["三十个。", "好了？"]


def test_segments_have_the_marks_that_have_settled():
    """The mark was a comma when it settled; a later result has a full stop."""
    speaker = Speaker()
    for count in (5, 6, 7, 8):
        update = speaker.hear("你好，我们今天去哪"[: count + 1], 1.0 if count == 5 else 0.5)
    assert update.stable == "你好，我"
    speaker.plain.end()
    assert speaker.update("你好。我们今天去哪？").stable == "你好，我们今天去哪？"
    (segment,) = speaker.plain.segments
    assert segment.result["punctuated"] == "你好，我们今天去哪？"


def test_results_of_streams_get_marks():
    class Punctuate:
        form = FORM

        def run(self, batch):
            assert batch["characters"][0].decode() == "你 好"
            return {"marks": [["！", "。"]], "status": ["ok"]}

    speaker = Speaker(Punctuate())
    speaker.plain.add(speech(1.0))
    result = make_result("你好", [0.2, 0.5], 0.0)
    del result["punctuated"]
    for item in result["characters"]:
        del item["mark"]
    # No mark is shown after the last character, because it would flicker during speech.
    assert speaker.text.update(speaker.plain.take(), result).partial == "你！好"


def _misrecognise(sentence, count, generator):
    """Returns the first `count` characters with wrong marks and with errors, most of them at the end."""
    marked = ""
    for place, character in enumerate(sentence[:count]):
        draw = generator.random() * (1 if place > count - 4 else 10)
        if draw < 0.1:
            continue
        marked += generator.choice("一二十百点好") if draw < 0.3 else character
        marked += generator.choice(MARKS) if generator.random() < 0.2 else ""
    return marked


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_recognised_settled_text_never_changes(seed):
    generator = random.Random(seed)
    speaker, stable = Speaker(), ""
    for is_last in (False, False, True):
        sentence = "".join(generator.choices("一二三四十百千万点零百分之年月日块钱好人我们在下午ab", k=30))
        for count in range(3, generator.randint(10, 30)):
            speaker.plain.add(speech(0.35))
            window = speaker.plain.take()
            if window is not None:
                update = _update(speaker, window, sentence, count, generator)
                assert update.stable.startswith(stable)
                stable = update.stable
        speaker.plain.end() if is_last else speaker.plain.add(speech(1.2, 0.0))
        for window in iter(speaker.plain.take, None) if is_last else [speaker.plain.take()]:
            update = _update(speaker, window, sentence, count + 2, generator)
            assert update.stable.startswith(stable) and update.partial == ""
            stable = update.stable
    written = [written_text.write(segment, FORM) for segment in speaker.plain.segments]
    assert captions.join_transcripts(written) == stable


def _update(speaker, window, sentence, count, generator):
    marked = _misrecognise(sentence, count, generator).lstrip(MARKS)
    while any(pair[0] in MARKS and pair[1] in MARKS for pair in zip(marked, marked[1:])):
        marked = marked[:-1]
    start, length = window.start / RATE, len(window.waveform) / RATE
    step = length / max(len(marked), 1)
    times = [start + step * i for i in range(len(marked))]
    return speaker.text.update(window, make_result(marked, times, start))


def test_writing_a_segment_takes_less_than_two_milliseconds():
    """Compares the fastest of 50 updates with 40 characters with and without the written form."""
    text = "我们在二零二六年十一月二十七日下午三点见面，一共有三十个人来参加会议，好不好？"

    def measure(make):
        speaker, seconds = Speaker(), []
        update = make(speaker)
        speaker.plain.add(speech(10.0))
        window = speaker.plain.take()
        result = make_result(text, [0.1 + 0.2 * i for i in range(len(text))], 0.0)
        for _ in range(50):
            begin = time.perf_counter()
            update(window, result)
            seconds.append(time.perf_counter() - begin)
        return min(seconds)

    written = measure(lambda speaker: speaker.text.update)
    assert written - measure(lambda speaker: speaker.plain.update) < 0.002
