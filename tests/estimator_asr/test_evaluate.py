"""python -m estimator_asr.evaluate: each utterance once, rates that jiwer confirms, and what is refused."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import os
import pathlib
import shutil

import jiwer
import programs
import pytest
import tensorflow as tf
import tiny_models

from estimator_asr import evaluate, export
from estimator_asr.evaluation import recognised_split
from estimator_asr.experiment import model_directory
from estimator_asr.exporting.saved_model import cascade, recogniser, saved_model_writer, trained_model
from estimator_asr.models.tasks import tasks
from estimator_asr.scoring import punctuation_scores, utterances
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info


def make_config(tiny, output_dir, **changes):
    config = {"data_dir": (tiny.data_dir,), "split": "test", "output_dir": str(output_dir), **changes}
    return evaluate.EvaluateConfig(**config)


def read_hypotheses(output_dir):
    with open(os.path.join(output_dir, "hypotheses.tsv"), encoding="utf-8", newline="") as file:
        return {
            row["utterance_id"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        }


def read_metrics(output_dir):
    return json.loads(pathlib.Path(output_dir, "metrics.json").read_text("utf-8"))


def assert_rate(rate, references, hypotheses):
    """Compares the rate with that of jiwer, whose input is tokens separated by spaces."""
    expected = jiwer.process_words(references, hypotheses)
    parts = [rate[name] for name in ("substitutions", "insertions", "deletions")]
    assert rate["errors"] == sum(parts) == expected.substitutions + expected.insertions + expected.deletions
    assert rate["reference_length"] == sum(len(text.split()) for text in references)
    assert rate["rate"] == pytest.approx(expected.wer)
    low, high = rate["confidence_interval"]
    assert low <= rate["rate"] <= high


def test_a_saved_model_keeps_its_decoder(tiny_export, tmp_path):
    with pytest.raises(errors.UserError) as refused:
        make_config(tiny_export, tmp_path, saved_model=tiny_export.version_dir, decoding="greedy")
    assert str(refused.value) == (
        "evaluate: --decoding=greedy has no effect on an export; export the model again with this "
        "--decoding, or pass --model_dir instead of --saved_model"
    )


@pytest.mark.long
def test_speakers_that_are_also_in_train_are_a_warning(tiny_export, tmp_path, caplog):
    data_dir = shutil.copytree(tiny_export.data_dir, tmp_path / "data")
    info = dataset_info.DatasetInfo.load(str(data_dir))
    split = dataclasses.replace(info.splits["test"], num_speakers=2, shared_speakers={"train": 2})
    dataclasses.replace(info, splits={**info.splits, "test": split}).save(str(data_dir))
    changes = {"data_dir": (str(data_dir),), "model_dir": tiny_export.acoustic_dir, "decoding": "greedy"}
    evaluate.evaluate(make_config(tiny_export, tmp_path / "report", **changes))
    assert (
        "evaluate: test: all 2 speakers are also in train, so error rates on test say nothing about voices "
        "that the model has not heard; use other speakers for test "
        "(for a corpus without a dev split, build --dev_fraction=0.05 moves whole speakers to dev)"
    ) in caplog.messages


@pytest.mark.long
def test_hotwords_are_in_lower_case_as_references(tiny_export, tmp_path):
    changes = {"saved_model": tiny_export.version_dir, "hotwords": ("AB好 a b hao3", "B C 2")}
    subject = evaluate._open_subject(make_config(tiny_export, tmp_path, **changes), {})
    assert subject.hotwords == ["ab好 a b hao3", "b c 2.000000"]


@pytest.mark.long
def test_hotwords_of_flag_and_file_reach_the_report(tiny_export, tmp_path):
    for name, hotwords in (("plain", ()), ("hotwords", ("泥郝 ni3 hao3 1000",))):
        changes = {"saved_model": tiny_export.version_dir, "hotwords": hotwords}
        evaluate.evaluate(make_config(tiny_export, tmp_path / name, **changes))
        found = pathlib.Path(tmp_path, name, "hypotheses.jsonl").read_text("utf-8")
        assert ("泥郝" in found) == (name == "hotwords")
    assert "hotwords" in pathlib.Path(tmp_path, "hotwords", "report.html").read_text("utf-8")
    plain, biased = (
        json.loads(pathlib.Path(tmp_path, name, "metrics.json").read_text("utf-8"))
        for name in ("plain", "hotwords")
    )
    assert "biased_error_rate" not in plain
    parts = [biased[name]["errors"] for name in ("biased_error_rate", "unbiased_error_rate")]
    assert parts[0] > 0 and sum(parts) == biased["character_error_rate"]["errors"]


@pytest.mark.long
def test_greedy_decoding_on_request(tiny_export, tmp_path):
    """Greedy hypotheses are those of the best class of each frame; some of them differ from beam search."""
    found = {}
    for decoding in ("beam", "greedy"):
        config = make_config(
            tiny_export, tmp_path / decoding, model_dir=tiny_export.acoustic_dir, decoding=decoding
        )
        evaluate.evaluate(config)
        found[decoding] = {k: row["hypothesis"] for k, row in read_hypotheses(tmp_path / decoding).items()}
    assert found["greedy"] != found["beam"]
    model = model_directory.open_model_directory(tiny_export.acoustic_dir)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = tasks.for_model(model).placeholders(1)
        log_probs = tasks.for_model(model).recognise(features).log_probs
        cascade.restore(session, model, tf.train.latest_checkpoint(model.path))
        for name, (*_, waveform) in tiny_export.utterances.items():
            fbank = tiny_models.extract(waveform)
            best = session.run(log_probs, {features["fbank"]: [fbank], features["num_frames"]: [len(fbank)]})
            path = [int(k) for k, _ in itertools.groupby(best[0].argmax(axis=1))]
            tokens = model.tokens.decode(k for k in path if k != model.tokens.blank_id)
            assert found["greedy"][name] == " ".join(tokens)


@pytest.mark.long
def test_acoustic_model_is_scored_in_tokens(tiny_export, tmp_path):
    config = make_config(tiny_export, tmp_path / "report", model_dir=tiny_export.acoustic_dir)
    metrics = evaluate.evaluate(config)
    assert json.loads(json.dumps(metrics)) == read_metrics(tmp_path / "report")
    rows = read_hypotheses(tmp_path / "report")
    assert list(rows) == sorted(tiny_export.utterances)
    assert {name: row["reference"] for name, row in rows.items()} == {
        name: pronunciation for name, (_, _, pronunciation, _) in tiny_export.utterances.items()
    }
    exported = export.export(
        export.ExportConfig(tiny_export.acoustic_dir, None, export_dir=str(tmp_path / "export"))
    )
    model = recogniser.load(exported, "features")
    for name, (*_, waveform) in tiny_export.utterances.items():
        fbank = tiny_models.extract(waveform)
        spoken = model.run({"fbank": fbank[None], "num_frames": [len(fbank)]})["pinyin"][0]
        assert rows[name]["hypothesis"] == spoken
    assert_rate(
        metrics["token_error_rate"],
        [row["reference"] for row in rows.values()],
        [row["hypothesis"] for row in rows.values()],
    )
    assert "character_error_rate" not in metrics
    assert (metrics["num_utterances"], metrics["global_step"], metrics["split"]) == (8, 7, "test")
    assert (
        sum(row["token_error_rate"]["errors"] for row in metrics["by_speaker"].values())
        == (metrics["token_error_rate"]["errors"])
    )
    assert "Token error rate" in (tmp_path / "report" / "report.html").read_text("utf-8")


@pytest.mark.long
def test_export_is_scored_in_tokens_and_characters(tiny_export, tmp_path):
    config = make_config(tiny_export, tmp_path, saved_model=tiny_export.export_dir, group_pattern="^S")
    metrics = evaluate.evaluate(config)
    rows = read_hypotheses(tmp_path)
    assert {row["reference"] for row in rows.values()} == {"你好", "你好吗", "是", "犇犇"}
    characters = [
        [" ".join(row[side].replace("<unk>", "?")) for row in rows.values()]
        for side in ("reference", "hypothesis")
    ]
    assert_rate(metrics["character_error_rate"], *characters)
    outputs = [json.loads(line) for line in (tmp_path / "hypotheses.jsonl").read_text("utf-8").splitlines()]
    assert [each["utterance_id"] for each in outputs] == list(rows)
    for each, row in zip(outputs, rows.values()):
        assert each["transcript"] == row["hypothesis"] == each["n_best"][0]["transcript"]
        assert "".join(item["character"] for item in each["characters"]) == each["transcript"]
    assert metrics["token_error_rate"]["reference_length"] == 16
    assert (
        metrics["by_group"]["S"]["character_error_rate"]["errors"]
        == metrics["character_error_rate"]["errors"]
    )
    assert_times_of_tokens(tmp_path, utterances.split_characters)


@pytest.mark.long
@pytest.mark.parametrize("exported", [False, True])
def test_the_batches_are_those_that_the_model_was_trained_with(tiny_export, tmp_path, monkeypatch, exported):
    """By the defaults, each of the eight lengths has a bucket and a batch of its own."""
    model_dir = shutil.copytree(tiny_export.acoustic_dir, tmp_path / "am")
    saved = json.loads((model_dir / "config.json").read_text("utf-8"))
    saved["input"].update(batch_frames=320, num_buckets=1)  # two of the longest, of 1.6 s
    (model_dir / "config.json").write_text(json.dumps(saved), encoding="utf-8")
    if exported:
        trained = trained_model.open_trained_model(str(model_dir))
        subject = {"saved_model": saved_model_writer.write(trained, None, str(tmp_path / "export"))}
    else:
        subject = {"model_dir": str(model_dir)}
    sizes, run = [], recogniser.Recogniser.run
    monkeypatch.setattr(
        recogniser.Recogniser,
        "run",
        lambda self, batch: sizes.append(len(batch["fbank"])) or run(self, batch),
    )
    evaluate.evaluate(make_config(tiny_export, tmp_path / "report", **subject))
    assert sizes == [2, 2, 2, 2]


@pytest.mark.long
def test_language_model_is_scored_in_characters_on_text(tmp_path):
    language = tiny_models.make_language_model(str(tmp_path / "lm"))
    data_dir = str(tmp_path / "text")
    tiny_models.make_data(data_dir, with_audio=False)
    config = evaluate.EvaluateConfig(
        model_dir=language.path, data_dir=(data_dir,), output_dir=str(tmp_path / "report")
    )
    metrics = evaluate.evaluate(config)
    rows = read_hypotheses(tmp_path / "report")
    assert "token_error_rate" not in metrics
    assert rows["u2"]["hypothesis"] == rows["u2"]["reference"] == "是"  # the only reading of shi4
    assert "犇" not in rows["u3"]["hypothesis"]  # neither syllable nor character is in the vocabulary
    assert metrics["character_error_rate"]["reference_length"] == 16
    assert metrics["by_speaker"]["S2"]["character_error_rate"]["rate"] == pytest.approx(
        sum(
            rows[name]["hypothesis"][i : i + 1] != c
            for name in ("u2", "u5")
            for i, c in enumerate(rows[name]["reference"])
        )
        / 4
    )


@pytest.mark.long
def test_each_error_of_a_cascade_has_a_cause(tiny_export, tmp_path):
    """Two utterances of two characters, 犇犇, are in no vocabulary; the language model writes the others."""
    metrics = evaluate.evaluate(make_config(tiny_export, tmp_path, saved_model=tiny_export.export_dir))
    errors = {cause: each["errors"] for cause, each in metrics["attribution"].items()}
    assert sum(errors.values()) == metrics["character_error_rate"]["errors"]
    assert errors["unreachable"] == metrics["floors"]["vocabulary"]["errors"] == 4
    assert metrics["floors"]["n_best_oracle"]["errors"] <= metrics["character_error_rate"]["errors"]
    on_reference = metrics["floors"]["reference_pinyin"]
    assert on_reference["reference_length"] == metrics["character_error_rate"]["reference_length"] == 16
    assert 4 <= on_reference["errors"] < metrics["character_error_rate"]["errors"]
    command = (
        f"--saved_model={tiny_export.version_dir} --data_dir={tiny_export.data_dir} --output_dir={tmp_path}"
    )
    assert command in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.long
def test_with_damaged_lists_of_recordings_the_report_has_no_audio(tiny_export, tmp_path, caplog):
    data_dir = shutil.copytree(tiny_export.data_dir, tmp_path / "data")
    shard = next(data_dir.glob("*.tfrecord"))
    shard.with_suffix(".jsonl").write_text("nothing\n")
    config = make_config(
        tiny_export, tmp_path / "report", saved_model=tiny_export.export_dir, data_dir=(str(data_dir),)
    )
    assert evaluate.evaluate(config)["num_utterances"] == 8
    assert "evaluate: the report will contain no audio: " in caplog.text
    assert "line 1 is not a valid item" in caplog.text


@pytest.mark.long
def test_errors_of_a_language_model_are_homophones_or_unreachable(tmp_path):
    language = tiny_models.make_language_model(str(tmp_path / "lm"))
    data_dir = str(tmp_path / "text")
    tiny_models.make_data(data_dir, with_audio=False)
    config = evaluate.EvaluateConfig(language.path, data_dir=(data_dir,), output_dir=str(tmp_path / "report"))
    metrics = evaluate.evaluate(config)
    wrong = {cause: each["errors"] for cause, each in metrics["attribution"].items() if each["errors"]}
    assert set(wrong) <= {"language_homophone", "unreachable"} and wrong["unreachable"] == 4
    assert sum(wrong.values()) == metrics["character_error_rate"]["errors"]
    assert list(metrics["floors"]) == ["vocabulary"]


@pytest.mark.long
def test_unknown_tokens_never_match_each_other(tiny_export, tmp_path):
    """Ids would say that the unknown syllable ben1 and a recognised <unk> are the same."""
    evaluate.evaluate(make_config(tiny_export, tmp_path, model_dir=tiny_export.acoustic_dir))
    rows = read_hypotheses(tmp_path)
    assert any("<unk>" in row["hypothesis"] for row in rows.values())
    metrics = read_metrics(tmp_path)
    unseen = [rows[name] for name in ("u3", "u7")]
    assert all(row["reference"] == "ben1 ben1" for row in unseen)
    errors_in_unseen = sum(max(2, len(row["hypothesis"].split())) for row in unseen)
    others = [row for name, row in rows.items() if name not in ("u3", "u7")]
    expected = jiwer.process_words(
        [row["reference"] for row in others], [row["hypothesis"] for row in others]
    )
    errors_elsewhere = expected.substitutions + expected.insertions + expected.deletions
    assert metrics["token_error_rate"]["errors"] == errors_in_unseen + errors_elsewhere


@pytest.mark.long
def test_export_without_language_model_is_scored_in_tokens(tiny_export, tmp_path):
    acoustic = trained_model.open_trained_model(tiny_export.acoustic_dir)
    saved_model_writer.write(acoustic, None, str(tmp_path / "export"))
    metrics = evaluate.evaluate(make_config(tiny_export, tmp_path, saved_model=str(tmp_path / "export")))
    assert "token_error_rate" in metrics
    assert "character_error_rate" not in metrics
    assert_times_of_tokens(tmp_path, str.split)


def assert_times_of_tokens(report_dir, split):
    """The files for sclite have a line per utterance, and each token of the hypotheses in its order."""
    rows = read_hypotheses(report_dir)
    segments = [line.split() for line in (report_dir / "reference.stm").read_text("utf-8").splitlines()]
    assert [(each[0], each[6:]) for each in segments] == [
        (name, list(split(row["reference"]))) for name, row in rows.items()
    ]
    words = [line.split() for line in (report_dir / "hypothesis.ctm").read_text("utf-8").splitlines()]
    assert [(each[0], each[4]) for each in words] == [
        (name, token) for name, row in rows.items() for token in split(row["hypothesis"])
    ]
    ends = {each[0]: float(each[4]) for each in segments}
    assert all(float(each[2]) + float(each[3]) / 2 < ends[each[0]] for each in words)


@pytest.mark.long
def test_several_data_directories_are_one_split(tiny_export, tmp_path):
    other = shutil.copytree(tiny_export.data_dir, str(tmp_path / "other"))
    config = make_config(
        tiny_export,
        tmp_path / "report",
        model_dir=tiny_export.acoustic_dir,
        data_dir=(tiny_export.data_dir, other),
    )
    assert evaluate.evaluate(config)["num_utterances"] == 16


@pytest.mark.parametrize("flag", ["model_dir", "saved_model"])
def test_a_missing_split_is_refused(tiny_export, tmp_path, flag):
    path = tiny_export.acoustic_dir if flag == "model_dir" else tiny_export.export_dir
    config = make_config(tiny_export, tmp_path / "report", **{flag: path}, split="dev")
    with pytest.raises(errors.UserError, match=r"split 'dev' does not exist; existing splits: test, train"):
        evaluate.evaluate(config)
    assert not os.path.exists(tmp_path / "report")


@pytest.mark.parametrize("flag", ["model_dir", "saved_model"])
@pytest.mark.parametrize("kind", ["vocabulary", "frontend"])
def test_data_of_another_vocabulary_or_frontend_is_refused(tiny_export, tmp_path, flag, kind):
    data_dir = str(tmp_path / "data")
    tiny_models.make_data(
        data_dir, tokens=tiny_models.OTHER_TOKENS if kind == "vocabulary" else tiny_models.TOKENS
    )
    if kind == "frontend":
        info = dataset_info.DatasetInfo.load(data_dir)
        frontend = dataclasses.replace(info.frontend, hop_ms=20.0)
        dataclasses.replace(info, frontend=frontend).save(data_dir)
    path = tiny_export.acoustic_dir if flag == "model_dir" else tiny_export.export_dir
    expected = {
        "vocabulary": r"sha256 of tokens\.txt is \w{12}, expected \w{12} as in \S*; build the data with --",
        "frontend": r"frontend is hop_ms=20.0, expected hop_ms=10.0 as in \S*; build the data with --",
    }
    with pytest.raises(errors.UserError, match=rf"^{data_dir}: .*{expected[kind]}"):
        evaluate.evaluate(make_config(tiny_export, tmp_path, **{flag: path}, data_dir=(data_dir,)))


def test_text_is_refused_for_an_acoustic_model(tiny_export, tmp_path):
    data_dir = str(tmp_path / "text")
    tiny_models.make_data(data_dir, with_audio=False)
    for flag, path in (("model_dir", tiny_export.acoustic_dir), ("saved_model", tiny_export.export_dir)):
        with pytest.raises(errors.UserError, match=rf"^{data_dir}: frontend is none, expected frontend"):
            evaluate.evaluate(make_config(tiny_export, tmp_path, **{flag: path}, data_dir=(data_dir,)))


@pytest.mark.long
def test_damaged_shard_of_the_right_size_is_named(tiny_export, tmp_path):
    data_dir = shutil.copytree(tiny_export.data_dir, tmp_path / "data")
    shard = data_dir / "test-00000-of-00001.tfrecord"
    contents = bytearray(shard.read_bytes())
    contents[len(contents) // 2] ^= 0xFF
    shard.write_bytes(contents)
    config = make_config(tiny_export, tmp_path, model_dir=tiny_export.acoustic_dir, data_dir=(str(data_dir),))
    with pytest.raises(
        errors.UserError, match=r"data: a shard of split test is damaged .*build the data again"
    ):
        evaluate.evaluate(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "evaluate: neither --model_dir nor --saved_model is set; pass one of them"),
        (
            {"model_dir": "AM", "saved_model": "EXPORT"},
            "evaluate: --model_dir and --saved_model are both set; pass one of them",
        ),
        ({"model_dir": "AM", "data_dir": ()}, "--data_dir is missing"),
        ({"model_dir": "AM", "output_dir": None}, "--output_dir is missing"),
        ({"model_dir": "AM", "output_dir": ""}, "--output_dir is missing"),
        (
            {"model_dir": "AM", "hotwords": ("你好",)},
            "hotwords work only with an export; export the model, and pass --saved_model",
        ),
        (
            {"model_dir": "AM", "hotwords_file": "F"},
            "hotwords work only with an export; export the model, and pass --saved_model",
        ),
        (
            {"saved_model": "EXPORT", "streaming": True, "hotwords": ("你好",)},
            "--streaming does not support hotwords; omit --streaming or the hotwords",
        ),
        (
            {"saved_model": "EXPORT", "streaming": True, "chunk_frames": 16},
            "--chunk_frames=16 works only with --streaming and --model_dir; to change",
        ),
        ({"model_dir": "AM", "chunk_frames": 16}, "--chunk_frames=16 works only with --streaming"),
        ({"compare": ("A",), "data_dir": ()}, "--compare=A must list two or more different reports"),
        ({"compare": ("A", "A"), "data_dir": ()}, "--compare=A,A must list two or more different reports"),
        (
            {"compare": tuple(map(str, range(27))), "data_dir": ()},
            "--compare has 27 reports, expected at most 26",
        ),
        ({"compare": ("A", "B")}, "--compare reads only reports; omit --model_dir"),
        ({"model_dir": "AM", "group_pattern": "("}, r"--group_pattern=\( is not a valid regular expression"),
    ],
)
def test_conflicting_flags_are_refused(changes, message):
    config = {"data_dir": ("DATA",), "output_dir": "REPORT", **changes}
    with pytest.raises(errors.UserError, match=message):
        evaluate.EvaluateConfig(**config)


@pytest.mark.long
def test_streaming_scores_the_hypotheses_after_the_last_chunk(
    streaming_export, tiny_export, tmp_path, capsys
):
    """The model directory and its export hear the same; the tokens of both transcripts have delays."""
    model_dir, found = os.path.join(os.path.dirname(streaming_export), "am"), {}
    for name in ("model_dir", "saved_model"):
        path = {"model_dir": model_dir, "saved_model": streaming_export}[name]
        evaluate.main(make_config(tiny_export, tmp_path / name, streaming=True, **{name: path}))
        assert (
            "after the frames in which the model recognises them in whole recordings"
            in capsys.readouterr().out
        )
        found[name] = read_metrics(tmp_path / name)
        assert found[name]["chunk_frames"] == 16
        assert "emission delay" in pathlib.Path(tmp_path, name, "report.html").read_text("utf-8").lower()
    assert found["model_dir"]["token_error_rate"] == found["saved_model"]["token_error_rate"]
    delays = found["saved_model"]["emission_delay"]
    assert delays == found["model_dir"]["emission_delay"]
    assert delays["tokens"] > 0 and delays["p50"] <= delays["p90"] <= delays["p99"] < 3.0
    with open(tmp_path / "saved_model" / "hypotheses.jsonl", encoding="utf-8") as file:
        listed = [delay for line in file for delay in json.loads(line)["emission_delays"]]
    assert len(listed) == delays["tokens"]
    config = make_config(tiny_export, tmp_path / "r", model_dir=model_dir, streaming=True, chunk_frames=64)
    assert evaluate.evaluate(config)["chunk_frames"] == 64


@pytest.mark.long
def test_a_model_that_does_not_stream_is_refused(tiny_export, tmp_path):
    for name, path, message in (
        (
            "model_dir",
            tiny_export.acoustic_dir,
            "the model does not stream; train an acoustic model with --chunk_frames=32",
        ),
        ("saved_model", tiny_export.version_dir, "the model does not stream; omit --streaming, or export"),
    ):
        with pytest.raises(errors.UserError, match=f"{path}: {message}"):
            evaluate.evaluate(make_config(tiny_export, tmp_path, streaming=True, **{name: path}))


def test_recordings_longer_than_a_stream_are_refused_before_a_model_is_opened(tiny_export, tmp_path):
    """60 s have 5998 frames. The model directory does not exist."""
    data_dir = shutil.copytree(tiny_export.data_dir, tmp_path / "data")
    info = dataset_info.DatasetInfo.load(str(data_dir))
    split = dataclasses.replace(info.splits["test"], frame_lengths={5998: 1, 5999: 2, 9000: 1})
    dataclasses.replace(info, splits={**info.splits, "test": split}).save(str(data_dir))
    changes = {"data_dir": (tiny_export.data_dir, str(data_dir)), "model_dir": "AM", "streaming": True}
    with pytest.raises(errors.UserError) as refused:
        evaluate.evaluate(make_config(tiny_export, tmp_path / "report", **changes))
    assert str(refused.value) == (
        f"{data_dir}: 3 utterances in split test are longer than 60 s, the limit of --streaming; "
        "omit --streaming, or build the data again with --max_seconds=60"
    )
    assert not (tmp_path / "report").exists()


def test_a_data_directory_keeps_its_own_report(tiny_export):
    with pytest.raises(
        errors.UserError, match="is a data directory, and its report.html would be overwritten; choose"
    ):
        make_config(tiny_export, tiny_export.data_dir, model_dir=tiny_export.acoustic_dir)


@pytest.mark.parametrize("flag", ["model_dir", "saved_model"])
def test_an_output_directory_that_cannot_be_written_is_refused_before_a_model_is_opened(
    tiny_export, tmp_path, monkeypatch, flag
):
    def refuse(*_):
        raise AssertionError("a model was opened")

    monkeypatch.setattr(trained_model, "open_trained_model", refuse)
    monkeypatch.setattr(recogniser, "load_version", refuse)
    (tmp_path / "file").write_text("")
    path = tiny_export.acoustic_dir if flag == "model_dir" else tiny_export.export_dir
    config = make_config(tiny_export, tmp_path / "file" / "report", **{flag: path})
    with pytest.raises(
        errors.UserError, match=r"file/report: the report cannot be written \(Not a directory\); pass another"
    ):
        evaluate.evaluate(config)


@pytest.mark.long
def test_the_program_reports_speakers_that_are_not_in_train(tiny_export, tmp_path, monkeypatch, capsys):
    texts = {"pinyin": ["ni3", "<unk>"], "transcript": ["你", "<unk>"]}
    batch = {
        "utterance_id": [b"u1", b"u2"],
        "speaker": [b"", b"S1"],
        "pronunciation": [b"ni3", b"<unk>"],
        "transcript": ["你".encode(), b"<unk>"],
    }
    monkeypatch.setattr(recogniser.Recogniser, "run", lambda *_: texts)
    monkeypatch.setattr(recognised_split.input_fn, "read_elements", lambda read: iter([(batch, None)]))
    config = make_config(tiny_export, tmp_path, saved_model=tiny_export.export_dir)
    metrics = evaluate.evaluate(config)
    # <unk> is an error even where the reference of the record says so.
    assert [metrics[f"{name}_error_rate"]["errors"] for name in ("token", "character")] == [1, 1]
    evaluate._print_summary(metrics, config)
    assert "\nspeaker unknown for 1 of 2 utterances, each of which counts as a separate speaker; if a" in (
        capsys.readouterr().out
    )


@pytest.mark.long
def test_marks_of_recognised_speech_are_evaluated(tiny_export, punctuated_export, tmp_path, capsys, caplog):
    """All other rates are those of the same data without marks."""
    marked_dir = str(tmp_path / "data")
    tiny_models.make_data(marked_dir, final_mark="。")
    directories = {"plain": tiny_export.data_dir, "marked": marked_dir}
    metrics = {}
    for name, data_dir in directories.items():
        flags = {"data_dir": (data_dir,), "saved_model": punctuated_export}
        config = make_config(tiny_export, tmp_path / name, **flags)
        metrics[name] = {**evaluate.evaluate(config), "data": ""}
    (warning,) = (message for message in caplog.messages if "punctuation marks" in message)
    assert warning == (
        f"evaluate: split 'test' in {tiny_export.data_dir} has no punctuation marks, so none are evaluated; "
        "build the data again from text with marks"
    )
    assert metrics["marked"].keys() - metrics["plain"].keys() == {"marks", "written_form"}
    assert {name: metrics["marked"][name] for name in metrics["plain"]} == metrics["plain"]
    rows = [*map(json.loads, (tmp_path / "marked" / "hypotheses.jsonl").read_text("utf-8").splitlines())]
    counts = [punctuation_scores.score(*row["marks"]) for row in rows]
    rate = metrics["marked"]["marks"]["commas_stops_questions"]
    assert rate["num_expected"] == len(rows) == metrics["marked"]["marks"]["num_utterances"] == 8
    assert rate["f1"] == punctuation_scores.f1(counts, "commas_stops_questions")
    assert all(
        row["marks"] == [row["scored"]["character_error_rate"][0] + "。", row["punctuated"]] for row in rows
    )
    assert all(row["written"] == row["punctuated"] for row in rows)  # no text has numbers
    # The words are those of the character error rate.
    assert metrics["marked"]["written_form"] == metrics["marked"]["character_error_rate"]
    evaluate._print_summary(metrics["marked"], config)
    printed = capsys.readouterr().out
    assert "written form: " in printed and "commas stops questions: F1 " in printed


@pytest.mark.long
def test_two_decoders_are_compared(tiny_export, tmp_path):
    for decoding in ("beam", "greedy"):
        model = {"model_dir": tiny_export.acoustic_dir, "decoding": decoding}
        evaluate.evaluate(make_config(tiny_export, tmp_path / decoding, **model))
    reports = f"--compare={tmp_path / 'greedy'},{tmp_path / 'beam'}"
    completed = programs.run("estimator_asr.evaluate", reports, f"--output_dir={tmp_path / 'compared'}")
    assert (completed.returncode, completed.stderr) == (0, "")
    rates = {
        name: json.loads((tmp_path / name / "metrics.json").read_text())["token_error_rate"]["rate"]
        for name in ("greedy", "beam")
    }
    assert completed.stdout.splitlines()[0].startswith(
        f"token error rate: {tmp_path / 'beam'} {100 * rates['beam']:.2f} %, {tmp_path / 'greedy'} "
        f"{100 * rates['greedy']:.2f} %, difference {100 * (rates['beam'] - rates['greedy']):+.2f} points"
    )
    (saved,) = json.loads((tmp_path / "compared" / "comparison.json").read_text())
    assert (saved["rate_a"], saved["rate_b"]) == (rates["greedy"], rates["beam"])


@pytest.mark.long
def test_program_prints_rates_with_intervals_and_groups(tiny_export, tmp_path):
    flags = [
        f"--saved_model={tiny_export.export_dir}",
        f"--data_dir={tiny_export.data_dir}",
        f"--output_dir={tmp_path}",
        "--group_pattern=^S[01]",
    ]
    completed = programs.run("estimator_asr.evaluate", *flags)
    assert (completed.returncode, completed.stderr) == (0, "")
    lines = completed.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "token error rate",
        "character error rate",
        "S0 token error rate",
        "S0 character error rate",
        "S1 token error rate",
        "S1 character error rate",
        "other token error rate",
        "other character error rate",
        "report",
    ]
    assert " % (95 % interval " in lines[0]
    assert lines[-1] == f"report: {tmp_path / 'report.html'}"
