"""Tests python -m estimator_asr.evaluate: utterances, error rates (compared with jiwer), error messages."""

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


def evaluate_with(tiny, output_dir, **changes):
    return evaluate.evaluate(make_config(tiny, output_dir, **changes))


@pytest.fixture(scope="module")
def of_model(tiny_export, tmp_path_factory):
    """Returns the directory of a report on the acoustic model, decoded by beam search."""
    path = tmp_path_factory.mktemp("of_model")
    evaluate_with(tiny_export, path, model_dir=tiny_export.acoustic_dir)
    return path


@pytest.fixture(scope="module")
def of_greedy(tiny_export, tmp_path_factory):
    """Returns the directory of a report on the acoustic model, decoded greedily."""
    path = tmp_path_factory.mktemp("of_greedy")
    evaluate_with(tiny_export, path, model_dir=tiny_export.acoustic_dir, decoding="greedy")
    return path


@pytest.fixture(scope="module")
def of_export(tiny_export, tmp_path_factory):
    """Returns the directory of a report on the export."""
    path = tmp_path_factory.mktemp("of_export")
    evaluate_with(tiny_export, path, saved_model=tiny_export.export_dir, group_pattern="^S")
    return path


def read_hypotheses(output_dir):
    with open(os.path.join(output_dir, "hypotheses.tsv"), encoding="utf-8", newline="") as file:
        return {
            row["utterance_id"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        }


def read_metrics(output_dir):
    return json.loads(pathlib.Path(output_dir, "metrics.json").read_text("utf-8"))


def read_outputs(output_dir):
    return [*map(json.loads, pathlib.Path(output_dir, "hypotheses.jsonl").read_text("utf-8").splitlines())]


def assert_rate(rate, references, hypotheses):
    """Compares the rate with jiwer's; the texts are tokens separated by spaces."""
    expected = jiwer.process_words(references, hypotheses)
    parts = [rate[name] for name in ("substitutions", "insertions", "deletions")]
    assert rate["errors"] == sum(parts) == expected.substitutions + expected.insertions + expected.deletions
    assert rate["reference_length"] == sum(len(text.split()) for text in references)
    assert rate["rate"] == pytest.approx(expected.wer)
    low, high = rate["confidence_interval"]
    assert low <= rate["rate"] <= high


@pytest.mark.long
def test_speakers_that_are_also_in_train_are_a_warning(tiny_export, tmp_path, caplog):
    data_dir = shutil.copytree(tiny_export.data_dir, tmp_path / "data")
    info = dataset_info.DatasetInfo.load(str(data_dir))
    split = dataclasses.replace(info.splits["test"], num_speakers=2, shared_speakers={"train": 2})
    dataclasses.replace(info, splits={**info.splits, "test": split}).save(str(data_dir))
    changes = {"data_dir": (str(data_dir),), "model_dir": tiny_export.acoustic_dir, "decoding": "greedy"}
    evaluate_with(tiny_export, tmp_path / "report", **changes)
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
def test_hotwords_reach_the_report(tiny_export, of_export, tmp_path):
    hotwords = ("泥郝 ni3 hao3 1000",)
    biased = evaluate_with(tiny_export, tmp_path, saved_model=tiny_export.version_dir, hotwords=hotwords)
    assert json.loads(json.dumps(biased)) == read_metrics(tmp_path)
    for path, is_biased in ((of_export, False), (tmp_path, True)):
        assert ("泥郝" in (path / "hypotheses.jsonl").read_text("utf-8")) == is_biased
        assert ("biased_error_rate" in read_metrics(path)) == is_biased
    assert "hotwords" in (tmp_path / "report.html").read_text("utf-8")
    parts = [biased[name]["errors"] for name in ("biased_error_rate", "unbiased_error_rate")]
    assert parts[0] > 0 and sum(parts) == biased["character_error_rate"]["errors"]


@pytest.mark.long
def test_greedy_decoding_on_request(tiny_export, of_model, of_greedy):
    """Greedy hypotheses contain the best class of each frame; some of them differ from beam search."""
    beam, greedy = (
        {name: row["hypothesis"] for name, row in read_hypotheses(path).items()}
        for path in (of_model, of_greedy)
    )
    assert greedy != beam
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
            assert greedy[name] == " ".join(tokens)


@pytest.mark.long
def test_acoustic_model_is_scored_in_tokens(tiny_export, of_model, tmp_path):
    metrics, rows = read_metrics(of_model), read_hypotheses(of_model)
    assert list(rows) == sorted(tiny_export.utterances)
    assert {name: row["reference"] for name, row in rows.items()} == {
        name: pronunciation for name, (_, _, pronunciation, _) in tiny_export.utterances.items()
    }
    exported = export.export(export.ExportConfig(tiny_export.acoustic_dir, None, export_dir=str(tmp_path)))
    model = recogniser.load(exported, "features")
    for name, (*_, waveform) in tiny_export.utterances.items():
        fbank = tiny_models.extract(waveform)
        spoken = model.run({"fbank": fbank[None], "num_frames": [len(fbank)]})["pinyin"][0]
        assert rows[name]["hypothesis"] == spoken
    sides = ([row[side] for row in rows.values()] for side in ("reference", "hypothesis"))
    assert_rate(metrics["token_error_rate"], *sides)
    assert "character_error_rate" not in metrics
    assert (metrics["num_utterances"], metrics["global_step"], metrics["split"]) == (8, 7, "test")
    by_speaker = [row["token_error_rate"]["errors"] for row in metrics["by_speaker"].values()]
    assert sum(by_speaker) == metrics["token_error_rate"]["errors"]
    assert "Token error rate" in (of_model / "report.html").read_text("utf-8")


@pytest.mark.long
def test_export_is_scored_in_tokens_and_characters(of_export):
    metrics, rows = read_metrics(of_export), read_hypotheses(of_export)
    assert {row["reference"] for row in rows.values()} == {"你好", "你好吗", "是", "犇犇"}
    rate = metrics["character_error_rate"]
    characters = (
        [" ".join(row[side].replace("<unk>", "?")) for row in rows.values()]
        for side in ("reference", "hypothesis")
    )
    assert_rate(rate, *characters)
    outputs = read_outputs(of_export)
    assert [each["utterance_id"] for each in outputs] == list(rows)
    for each, row in zip(outputs, rows.values()):
        assert each["transcript"] == row["hypothesis"] == each["n_best"][0]["transcript"]
        assert "".join(item["character"] for item in each["characters"]) == each["transcript"]
    assert metrics["token_error_rate"]["reference_length"] == 16
    assert metrics["by_group"]["S"]["character_error_rate"]["errors"] == rate["errors"]
    assert_times_of_tokens(of_export, utterances.split_characters)


@pytest.mark.long
@pytest.mark.parametrize("exported", [False, True])
def test_the_batches_are_those_that_the_model_was_trained_with(tiny_export, tmp_path, monkeypatch, exported):
    """With the default settings, each of the eight lengths would have a separate bucket and batch."""
    model_dir = shutil.copytree(tiny_export.acoustic_dir, tmp_path / "am")
    saved = json.loads((model_dir / "config.json").read_text("utf-8"))
    saved["input"].update(batch_frames=320, num_buckets=1)  # two of the longest utterances (1.6 s)
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
    evaluate_with(tiny_export, tmp_path / "report", **subject)
    assert sizes == [2, 2, 2, 2]


@pytest.mark.long
def test_language_model_is_scored_in_characters_on_text(tmp_path):
    language = tiny_models.make_language_model(str(tmp_path / "lm"))
    data_dir = str(tmp_path / "text")
    tiny_models.make_data(data_dir, with_audio=False)
    config = evaluate.EvaluateConfig(language.path, data_dir=(data_dir,), output_dir=str(tmp_path / "report"))
    metrics = evaluate.evaluate(config)
    rows = read_hypotheses(tmp_path / "report")
    assert "token_error_rate" not in metrics
    assert rows["u2"]["hypothesis"] == rows["u2"]["reference"] == "是"  # the only reading of shi4
    assert "犇" not in rows["u3"]["hypothesis"]  # neither the syllable nor the character is in the vocabulary
    assert metrics["character_error_rate"]["reference_length"] == 16
    wrong = sum(
        rows[name]["hypothesis"][i : i + 1] != character
        for name in ("u2", "u5")
        for i, character in enumerate(rows[name]["reference"])
    )
    assert metrics["by_speaker"]["S2"]["character_error_rate"]["rate"] == pytest.approx(wrong / 4)
    causes = {cause: each["errors"] for cause, each in metrics["attribution"].items() if each["errors"]}
    assert set(causes) <= {"language_homophone", "unreachable"} and causes["unreachable"] == 4
    assert sum(causes.values()) == metrics["character_error_rate"]["errors"]
    assert list(metrics["floors"]) == ["vocabulary"]


@pytest.mark.long
def test_each_error_of_a_cascade_has_a_cause(tiny_export, of_export):
    """The two utterances 犇犇 are in no vocabulary; the language model writes all other utterances."""
    metrics = read_metrics(of_export)
    causes = {cause: each["errors"] for cause, each in metrics["attribution"].items()}
    assert sum(causes.values()) == metrics["character_error_rate"]["errors"]
    assert causes["unreachable"] == metrics["floors"]["vocabulary"]["errors"] == 4
    assert metrics["floors"]["n_best_oracle"]["errors"] <= metrics["character_error_rate"]["errors"]
    on_reference = metrics["floors"]["reference_pinyin"]
    assert on_reference["reference_length"] == metrics["character_error_rate"]["reference_length"] == 16
    assert 4 <= on_reference["errors"] < metrics["character_error_rate"]["errors"]
    paths = (
        f"--saved_model={tiny_export.version_dir} --data_dir={tiny_export.data_dir} --output_dir={of_export}"
    )
    assert paths in (of_export / "report.html").read_text("utf-8")


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
def test_unknown_tokens_never_match_each_other(of_model):
    """The unknown syllable ben1 and a recognised <unk> have the same id, but are different tokens."""
    rows, metrics = read_hypotheses(of_model), read_metrics(of_model)
    assert any("<unk>" in row["hypothesis"] for row in rows.values())
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
    metrics = evaluate_with(tiny_export, tmp_path, saved_model=str(tmp_path / "export"))
    assert "token_error_rate" in metrics
    assert "character_error_rate" not in metrics
    assert_times_of_tokens(tmp_path, str.split)


def assert_times_of_tokens(report_dir, split):
    """Checks that the files for sclite have all utterances, and all tokens of the hypotheses in order."""
    rows = read_hypotheses(report_dir)
    segments, words = (
        [line.split() for line in (report_dir / name).read_text("utf-8").splitlines()]
        for name in ("reference.stm", "hypothesis.ctm")
    )
    assert [(each[0], each[6:]) for each in segments] == [
        (name, list(split(row["reference"]))) for name, row in rows.items()
    ]
    assert [(each[0], each[4]) for each in words] == [
        (name, token) for name, row in rows.items() for token in split(row["hypothesis"])
    ]
    ends = {each[0]: float(each[4]) for each in segments}
    assert all(float(each[2]) + float(each[3]) / 2 < ends[each[0]] for each in words)


@pytest.mark.long
def test_several_data_directories_are_one_split(tiny_export, tmp_path):
    other = shutil.copytree(tiny_export.data_dir, str(tmp_path / "other"))
    changes = {"model_dir": tiny_export.acoustic_dir, "data_dir": (tiny_export.data_dir, other)}
    assert evaluate_with(tiny_export, tmp_path / "report", **changes)["num_utterances"] == 16


@pytest.fixture(params=["model_dir", "saved_model"])
def subject(request, tiny_export):
    """Returns the flag that selects the acoustic model or the export, and its value."""
    return {
        request.param: {"model_dir": tiny_export.acoustic_dir, "saved_model": tiny_export.export_dir}[
            request.param
        ]
    }


def test_a_missing_split_is_refused(tiny_export, tmp_path, subject):
    with pytest.raises(errors.UserError, match=r"split 'dev' does not exist; existing splits: test, train"):
        evaluate_with(tiny_export, tmp_path / "report", **subject, split="dev")
    assert not os.path.exists(tmp_path / "report")


@pytest.mark.parametrize(
    ("options", "hop_ms", "said"),
    [
        (
            {"tokens": tiny_models.OTHER_TOKENS},
            10.0,
            r"sha256 of tokens\.txt is \w{12}, expected \w{12} as in \S*; build the data with --",
        ),
        ({}, 20.0, r"frontend is hop_ms=20.0, expected hop_ms=10.0 as in \S*; build the data with --"),
        ({"with_audio": False}, None, "frontend is none, expected frontend"),
    ],
)
def test_data_that_do_not_fit_are_refused(tiny_export, tmp_path, subject, options, hop_ms, said):
    data_dir = str(tmp_path / "data")
    tiny_models.make_data(data_dir, **options)
    if hop_ms is not None:
        info = dataset_info.DatasetInfo.load(data_dir)
        frontend = dataclasses.replace(info.frontend, hop_ms=hop_ms)
        dataclasses.replace(info, frontend=frontend).save(data_dir)
    with pytest.raises(errors.UserError, match=rf"^{data_dir}: .*{said}"):
        evaluate_with(tiny_export, tmp_path, **subject, data_dir=(data_dir,))


@pytest.mark.long
def test_damaged_shard_of_the_right_size_is_named(tiny_export, tmp_path):
    data_dir = shutil.copytree(tiny_export.data_dir, tmp_path / "data")
    shard = data_dir / "test-00000-of-00001.tfrecord"
    contents = bytearray(shard.read_bytes())
    contents[len(contents) // 2] ^= 0xFF
    shard.write_bytes(contents)
    said = r"data: a shard of split test is damaged .*build the data again"
    with pytest.raises(errors.UserError, match=said):
        evaluate_with(tiny_export, tmp_path, model_dir=tiny_export.acoustic_dir, data_dir=(str(data_dir),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "evaluate: neither --model_dir nor --saved_model is set; pass one of them"),
        (
            {"model_dir": "AM", "saved_model": "EXPORT"},
            "evaluate: --model_dir and --saved_model are both set; pass one of them",
        ),
        (
            {"saved_model": "EXPORT", "decoding": "greedy"},
            "^evaluate: --decoding=greedy has no effect on an export; export the model again with this "
            "--decoding, or pass --model_dir instead of --saved_model$",
        ),
        ({"model_dir": "AM", "data_dir": ()}, "--data_dir is missing"),
        ({"model_dir": "AM", "output_dir": None}, "--output_dir is missing"),
        ({"model_dir": "AM", "output_dir": ""}, "--output_dir is missing"),
        *(
            (
                {"model_dir": "AM", **hotwords},
                "hotwords work only with an export; export the model, and pass --s",
            )
            for hotwords in ({"hotwords": ("你好",)}, {"hotwords_file": "F"})
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
    """The model directory and its export recognise the same tokens with the same delays."""
    model_dir, found = os.path.join(os.path.dirname(streaming_export), "am"), {}
    for name in ("model_dir", "saved_model"):
        path = {"model_dir": model_dir, "saved_model": streaming_export}[name]
        evaluate.main(make_config(tiny_export, tmp_path / name, streaming=True, **{name: path}))
        said = "after the frames in which the model recognises them in whole recordings"
        assert said in capsys.readouterr().out
        found[name] = read_metrics(tmp_path / name)
        assert found[name]["chunk_frames"] == 16
        assert "emission delay" in pathlib.Path(tmp_path, name, "report.html").read_text("utf-8").lower()
    assert found["model_dir"]["token_error_rate"] == found["saved_model"]["token_error_rate"]
    delays = found["saved_model"]["emission_delay"]
    assert delays == found["model_dir"]["emission_delay"]
    assert delays["tokens"] > 0 and delays["p50"] <= delays["p90"] <= delays["p99"] < 3.0
    outputs = read_outputs(tmp_path / "saved_model")
    assert sum(len(output["emission_delays"]) for output in outputs) == delays["tokens"]
    changes = {"model_dir": model_dir, "streaming": True, "chunk_frames": 64}
    assert evaluate_with(tiny_export, tmp_path / "r", **changes)["chunk_frames"] == 64


@pytest.mark.long
def test_a_model_that_does_not_stream_is_refused(tiny_export, tmp_path, subject):
    said = {
        "model_dir": "train an acoustic model with --chunk_frames=32",
        "saved_model": "omit --streaming, or",
    }
    ((name, path),) = subject.items()
    with pytest.raises(errors.UserError, match=f"{path}.*: the model does not stream; {said[name]}"):
        evaluate_with(tiny_export, tmp_path, streaming=True, **subject)


def test_recordings_longer_than_a_stream_are_refused_before_a_model_is_opened(tiny_export, tmp_path):
    """60 s have 5998 frames. The directory AM does not exist."""
    data_dir = shutil.copytree(tiny_export.data_dir, tmp_path / "data")
    info = dataset_info.DatasetInfo.load(str(data_dir))
    split = dataclasses.replace(info.splits["test"], frame_lengths={5998: 1, 5999: 2, 9000: 1})
    dataclasses.replace(info, splits={**info.splits, "test": split}).save(str(data_dir))
    changes = {"data_dir": (tiny_export.data_dir, str(data_dir)), "model_dir": "AM", "streaming": True}
    with pytest.raises(errors.UserError) as refused:
        evaluate_with(tiny_export, tmp_path / "report", **changes)
    assert str(refused.value) == (
        f"{data_dir}: 3 utterances in split test are longer than 60 s, the limit of --streaming; "
        "omit --streaming, or build the data again with --max_seconds=60"
    )
    assert not (tmp_path / "report").exists()


def test_a_data_directory_keeps_its_own_report(tiny_export):
    said = "is a data directory, and its report.html would be overwritten; choose"
    with pytest.raises(errors.UserError, match=said):
        make_config(tiny_export, tiny_export.data_dir, model_dir=tiny_export.acoustic_dir)


def test_an_unwritable_output_directory_is_refused_before_a_model_is_opened(
    tiny_export, tmp_path, monkeypatch, subject
):
    def refuse(*_):
        raise AssertionError("a model was opened")

    monkeypatch.setattr(trained_model, "open_trained_model", refuse)
    monkeypatch.setattr(recogniser, "load_version", refuse)
    (tmp_path / "file").write_text("")
    said = r"file/report: the report cannot be written \(Not a directory\); pass another"
    with pytest.raises(errors.UserError, match=said):
        evaluate_with(tiny_export, tmp_path / "file" / "report", **subject)


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
    # <unk> is an error even where the reference also has <unk>.
    assert [metrics[f"{name}_error_rate"]["errors"] for name in ("token", "character")] == [1, 1]
    evaluate._print_summary(metrics, config)
    assert "\nspeaker unknown for 1 of 2 utterances, each of which counts as a separate speaker; if a" in (
        capsys.readouterr().out
    )


@pytest.mark.long
def test_marks_of_recognised_speech_are_evaluated(tiny_export, punctuated_export, tmp_path, capsys, caplog):
    """All other rates are the same as for the same data without marks."""
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
    rows = read_outputs(tmp_path / "marked")
    counts = [punctuation_scores.score(*row["marks"]) for row in rows]
    rate = metrics["marked"]["marks"]["commas_stops_questions"]
    assert rate["num_expected"] == len(rows) == metrics["marked"]["marks"]["num_utterances"] == 8
    assert rate["f1"] == punctuation_scores.f1(counts, "commas_stops_questions")
    assert all(
        row["marks"] == [row["scored"]["character_error_rate"][0] + "。", row["punctuated"]] for row in rows
    )
    assert all(row["written"] == row["punctuated"] for row in rows)  # no text has numbers
    # Without numbers, the written form has the same characters as the transcript.
    assert metrics["marked"]["written_form"] == metrics["marked"]["character_error_rate"]
    evaluate._print_summary(metrics["marked"], config)
    printed = capsys.readouterr().out
    assert "written form: " in printed and "commas stops questions: F1 " in printed


@pytest.mark.long
def test_two_decoders_are_compared(of_greedy, of_model, tmp_path):
    reports = f"--compare={of_greedy},{of_model}"
    completed = programs.run("estimator_asr.evaluate", reports, f"--output_dir={tmp_path}")
    assert (completed.returncode, completed.stderr) == (0, "")
    greedy, beam = (read_metrics(path)["token_error_rate"]["rate"] for path in (of_greedy, of_model))
    assert completed.stdout.splitlines()[0].startswith(
        f"token error rate: {of_model} {100 * beam:.2f} %, {of_greedy} {100 * greedy:.2f} %, "
        f"difference {100 * (beam - greedy):+.2f} points"
    )
    (saved,) = json.loads((tmp_path / "comparison.json").read_text())
    assert (saved["rate_a"], saved["rate_b"]) == (greedy, beam)


@pytest.mark.long
def test_program_prints_rates_with_intervals_and_groups(tiny_export, tmp_path):
    flags = (f"--saved_model={tiny_export.export_dir}", f"--data_dir={tiny_export.data_dir}")
    output = (f"--output_dir={tmp_path}", "--group_pattern=^S[01]")
    # Shards of tiny_models have no sha256, so the index may be that of other data; indexing again is logged.
    evaluate_with(tiny_export, tmp_path, saved_model=tiny_export.export_dir)
    completed = programs.run("estimator_asr.evaluate", *flags, *output)
    assert (completed.returncode, completed.stderr) == (0, "")
    lines = completed.stdout.splitlines()
    rates = [
        f"{group}{unit} error rate"
        for group in ("", "S0 ", "S1 ", "other ")
        for unit in ("token", "character")
    ]
    assert [line.split(":")[0] for line in lines] == [*rates, "report"]
    assert " % (95 % interval " in lines[0]
    assert lines[-1] == f"report: {tmp_path / 'report.html'}"
