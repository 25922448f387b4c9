"""Tests plans for synthesised corpora: sentences, pinyin, words, speakers per split, error messages."""

import pytest

from tfrecord_builder import errors
from tfrecord_builder.synthesis import espeak, text_plan

ENGINE = espeak.EspeakEngine(seed=1)


@pytest.fixture
def text_dir(tmp_path):
    """Text with fifty train sentences and ten dev sentences."""
    for split, count in (("train", 50), ("dev", 10)):
        lines = "今天天气很好\tjin1 tian1 tian1 qi4 hen3 hao3\n" * count
        (tmp_path / f"{split}.tsv").write_text(f"hanzi\tpinyin\n{lines}", encoding="utf-8")
    return tmp_path


def make_config(text_dir, **settings):
    return text_plan.SynthesisConfig(text_dir=(str(text_dir),), tts="espeak", **settings)


def make_plan(text_dir, **settings):
    return text_plan.make_plan(make_config(text_dir, **settings), ENGINE)


def write(text_dir, *lines):
    (text_dir / "train.tsv").write_text("\n".join(["hanzi\tpinyin", *lines]), encoding="utf-8")


def test_prompts_have_the_pinyin_of_the_text_and_words(text_dir):
    planned, rejected = make_plan(text_dir)
    assert (len(planned), rejected) == (60, [])
    assert planned[0].utterance_id == f"{text_dir.name}-train-2"
    assert planned[0].pinyin == ("jin1", "tian1", "tian1", "qi4", "hen3", "hao3")
    assert planned[0].phrases == (("今天天气", "很", "好"),)
    assert [prompt.split for prompt in planned].count("dev") == 10


def test_pinyin_is_made_if_the_text_has_none(text_dir):
    write(text_dir, "你好，重庆！\t", "你好，买了23个。\t")
    (first, second, *_), _ = make_plan(text_dir)
    assert (first.phrases, first.pinyin) == ((("你好",), ("重庆",)), ("ni3", "hao3", "chong2", "qing4"))
    assert second.pinyin == ("ni3", "hao3", "mai3", "le5", "er4", "shi2", "san1", "ge4")
    assert ["".join(phrase) for phrase in second.phrases] == ["你好", "买了二十三个"]
    (first, *_), _ = make_plan(text_dir, tone_sandhi=True)
    assert first.pinyin[0] == "ni2"


def test_the_transcript_keeps_its_marks(text_dir):
    text = "“你好”，重庆！"
    write(text_dir, f"{text}\t", "你好，买了23个。\t", "你好 \xa0吗？\t")
    planned, _ = make_plan(text_dir)
    assert [prompt.text for prompt in planned[:3]] == [text, "你好,买了二十三个。", "你好 吗？"]


def test_sentences_that_cannot_be_spoken_are_rejected(text_dir):
    write(
        text_dir,
        "我用A卡\two3 yong4 A ka3",
        "好\thao3 ma5",
        "好" * 61 + "\t" + "hao3 " * 61,
        "我和\ufffd你\two3 he2 ni3",
        "好\thao3",
    )
    planned, rejected = make_plan(text_dir)
    name = f"{text_dir.name}-train"
    assert planned[0].utterance_id == f"{name}-6"
    reason = f"cannot be spoken: {text_plan._RULE}"
    assert rejected == [(f"{name}-{line}", "train", reason, "") for line in (2, 3, 4, 5)]


def test_a_directory_of_text_that_does_not_exist(tmp_path):
    with pytest.raises(errors.UserError, match=f"--text_dir: {tmp_path}/none does not exist; pass"):
        make_plan(tmp_path / "none")


def test_text_that_cannot_be_spoken_is_refused(text_dir):
    (text_dir / "dev.tsv").unlink()
    write(text_dir, "hello\t")
    message = "--text_dir: none of the 1 sentences can be spoken; a sentence needs 1 to"
    with pytest.raises(errors.UserError, match=message):
        make_plan(text_dir)


def test_the_same_seed_samples_the_same_sentences(text_dir):
    first, second, other = (
        [prompt.utterance_id for prompt in make_plan(text_dir, num_utterances=20, synthesis_seed=seed)[0]]
        for seed in (1, 1, 2)
    )
    assert len(first) == 20 and first == second != other


def test_more_sentences_do_not_change_the_speaker_of_a_sentence(text_dir):
    few, _ = make_plan(text_dir, num_utterances=30)
    many, _ = make_plan(text_dir)
    speakers = {prompt.utterance_id: prompt.speaker for prompt in many}
    assert all(prompt.speaker == speakers[prompt.utterance_id] for prompt in few)


@pytest.mark.parametrize(
    "num_speakers, counts",
    [(None, (25, 11, 11)), (94, (48, 23, 23)), (8, (4, 2, 2)), (5, (3, 1, 1)), (3, (3, 3, 3))],
)
def test_dev_and_test_have_a_quarter_of_the_voices_for_themselves(tmp_path, num_speakers, counts):
    config = make_config(tmp_path, num_speakers=num_speakers)
    speakers = text_plan.assign_speakers(config, ENGINE, ("train", "dev", "test"))
    names = {split: {speaker.name for speaker in own} for split, own in speakers.items()}
    assert tuple(map(len, names.values())) == counts
    assert len(set().union(*names.values())) == (num_speakers or 47)
    timbres = [{speaker.variant for speaker in own} for own in speakers.values()]
    assert num_speakers == 3 or sum(map(len, timbres)) == len(set().union(*timbres))


def test_one_split_has_all_voices(tmp_path):
    (own,) = text_plan.assign_speakers(make_config(tmp_path), ENGINE, ("dev",)).values()
    assert len(own) == 47


def test_only_the_requested_voices_are_used(tmp_path):
    config = make_config(tmp_path, voices=("f1", "m3", "f1"))
    (own,) = text_plan.assign_speakers(config, ENGINE, ("train",)).values()
    assert {speaker.name for speaker in own} == {"f1", "m3"}


def test_unknown_voices_are_refused(tmp_path):
    config = make_config(tmp_path, voices=("f1", "zf_xiaobei"))
    message = "--voices: zf_xiaobei cannot be used with --tts=espeak; choose from Alex, Andy, "
    with pytest.raises(errors.UserError, match=message):
        text_plan.assign_speakers(config, ENGINE, ("train",))


def test_too_many_speakers_are_refused_with_the_maximum(tmp_path):
    config = make_config(tmp_path, num_speakers=1000)
    message = "--num_speakers is 1000, expected at most 940 with --tts=espeak"
    with pytest.raises(errors.UserError, match=message):
        text_plan.assign_speakers(config, ENGINE, ("train", "dev"))


def test_the_synthesiser_is_required():
    with pytest.raises(errors.UserError, match="--tts is missing; pass it .*one of: espeak, kokoro"):
        text_plan.SynthesisConfig(text_dir=("t",))
