from __future__ import annotations

from estimator_asr.monitoring import sample_text


def test_differences_are_bold_and_missing_tokens_a_dot():
    assert sample_text.compare(["ni3", "hao3", "ma5"], ["ni3", "hao4", "ma5", "a5"]) == (
        "2 wrong of 3\n\n"
        "| reference | ni3 | hao3 | ma5 | · |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| hypothesis | ni3 | **hao4** | ma5 | **a5** |"
    )
    assert sample_text.compare(["ni3", "hao3"], ["hao3"]).endswith("| hypothesis | **·** | hao3 |")


def test_equal_and_empty_texts():
    assert sample_text.compare(["a"], ["a"]).startswith("0 wrong of 1\n")
    assert sample_text.compare([], []) == "0 wrong of 0"
    assert sample_text.compare(["a"], []).startswith("1 wrong of 1\n")


def test_markup_in_tokens_is_escaped():
    text = sample_text.compare(["<unk>", "a|b", "*"], ["<unk>", "a|b", "*"])
    assert "&lt;unk&gt;" in text and r"a\|b" in text and r"\*" in text


def test_a_long_utterance_has_several_tables():
    text = sample_text.compare(["a"] * 40, ["a"] * 40)
    assert text.count("reference") == 3 and text.count("| a |") == 3 * 2 * 8 - 8
