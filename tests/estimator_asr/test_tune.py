"""tune finds and saves settings that do not increase the errors; evaluate and export use these settings."""

import hashlib
import json
import re
import shutil

import numpy as np
import pytest
import tiny_models

from estimator_asr import evaluate, export, tune
from estimator_asr.evaluation.tuning import calibration, search, trials
from estimator_asr.experiment import config, decoding_files, model_directory, task_spec
from estimator_asr.exporting import parity
from estimator_asr.exporting.saved_model import export_info, trained_model
from estimator_asr.inputs import input_fn, splits
from estimator_asr.pretrained import decoder_weights
from estimator_asr.scoring import utterances
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info

TUNE_AGAIN = "; restore it from a copy, or remove decoding.json and run python -m estimator_asr.tune again"
# "ni3 hao3 ma5" is probable, and all other sentences are improbable.
ARPA = """\\data\\
ngram 1=8
ngram 2=4

\\1-grams:
-5\t<unk>
-99\t<s>\t0
-2\t</s>
-2\tni3\t0
-2\thao3\t0
-2\tma5
-4\tshi4
-4\ttian1

\\2-grams:
-0.01\t<s> ni3
-0.01\tni3 hao3
-0.01\thao3 ma5
-0.01\tma5 </s>

\\end\\
"""


@pytest.fixture(autouse=True)
def small_grid(monkeypatch):
    monkeypatch.setattr(search, "_NGRAM_WEIGHTS", (0.4, 1.0))
    monkeypatch.setattr(search, "_TOKEN_BONUSES", (1.0,))
    monkeypatch.setattr(search, "_FINER", ((0.0, 0.5),))
    monkeypatch.setattr(search, "_RANKING_WEIGHTS", (0.3,))
    monkeypatch.setattr(search, "_WHISPER_WEIGHTS", (1.0, 3.0))


@pytest.fixture
def model_dir(tiny_export, tmp_path):
    return shutil.copytree(tiny_export.acoustic_dir, tmp_path / "am")


@pytest.fixture
def ngram(tmp_path):
    path = tmp_path / "tokens.arpa"
    path.write_text(ARPA, encoding="utf-8")
    return str(path)


def make_config(tiny_export, model_dir, **settings):
    return tune.TuneConfig(str(model_dir), data_dir=(tiny_export.data_dir,), split="test", **settings)


def evaluate_errors(tiny_export, model_dir, output_dir, **settings):
    config = evaluate.EvaluateConfig(
        str(model_dir), None, (tiny_export.data_dir,), "test", str(output_dir), **settings
    )
    return evaluate.evaluate(config)["token_error_rate"]["errors"]


@pytest.mark.long
def test_the_tuned_settings_are_saved_and_used_by_evaluate(tiny_export, model_dir, ngram, tmp_path):
    """tune counts the same errors as evaluate, and saves the settings with the fewest errors."""
    before = evaluate_errors(tiny_export, model_dir, tmp_path / "before")
    found = tune.tune(make_config(tiny_export, model_dir, ngram=ngram))
    names = [step.name for step in found.steps]
    assert names == ["greedy", "beam search", "n-gram model", "reranking by the attention decoder"]
    greedy, beam, _, best = (step.errors[utterances.TOKEN_ERROR_RATE] for step in found.steps)
    assert beam == before and best < beam
    assert evaluate_errors(tiny_export, model_dir, tmp_path / "after") == best
    assert evaluate_errors(tiny_export, model_dir, tmp_path / "greedy", decoding="greedy") == greedy
    opened = model_directory.open_model_directory(str(model_dir))
    assert opened.decode == found.steps[-1].settings
    assert opened.decode.ngram_weight > 0
    assert opened.ngram.unigram_log_probs.shape == (6,)


def save(model_dir, arpa=None, **settings):
    """Saves decoding settings as tune does; returns the model directory, opened again."""
    model = model_directory.open_model_directory(str(model_dir))
    ngram = arpa and tune.read_ngram(arpa, model)
    decoding_files.save(str(model_dir), decoding_files.Decoding(config.DecodeConfig(**settings), ngram))
    return model_directory.open_model_directory(str(model_dir))


def test_tuning_again_without_the_ngram_model_removes_it(model_dir, ngram):
    assert save(model_dir, ngram, ngram_weight=0.5).ngram.order == 2
    (file,) = model_dir.glob("ngram*")
    assert file.name == f"ngram-{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}.npz"
    opened = save(model_dir)
    assert not list(model_dir.glob("ngram*"))
    assert (opened.ngram, opened.decode) == (None, config.DecodeConfig())


@pytest.mark.long
def test_the_program_prints_each_step(tiny_export, model_dir, ngram, capsys):
    tune.main(make_config(tiny_export, model_dir, language_model_dir=tiny_export.language_dir, ngram=ngram))
    lines = capsys.readouterr().out.splitlines()
    steps = ["greedy", "beam search", "n-gram model"]
    steps += ["reranking by the attention decoder", "reranking by the language model"]
    assert [line.split(":")[0] for line in lines] == [*steps, "confidence", lines[-1].split(":")[0]]
    total = sum(len(pronunciation.split()) for _, _, pronunciation, _ in tiny_export.utterances.values())
    counts = rf".*: \d+ of {total} tokens wrong, \d+ of {total} characters wrong"
    assert all(re.fullmatch(counts, line) for line in lines[:5])
    assert "whisper" not in lines[-1]
    assert lines[-1].startswith("best settings: ngram_weight ") and f"; saved in {model_dir}, " in lines[-1]
    assert lines[-1].endswith(f"plotted in {model_dir}/tuning.png")
    saved = json.loads((model_dir / "decoding.json").read_text(encoding="utf-8"))
    assert saved["decode"]["confidence_scale"] > 0


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ({"ngram_weight": 0.38, "token_bonus": 6.0}, "ngram_weight 0.38, token_bonus 6"),
        ({"whisper_weight": 0.5}, "whisper_weight 0.5"),
        ({}, "all weights 0"),
    ],
)
def test_counts_are_printed_with_totals_and_zero_weights_are_not(found, named, capsys):
    tokens, characters = utterances.TOKEN_ERROR_RATE, utterances.CHARACTER_ERROR_RATE
    step = search.DecodingStep("beam search", config.DecodeConfig(**found), {tokens: 42, characters: 1043})
    result = search.TuningResult([step], {tokens: 1201, characters: 1234}, None, None)
    tune._print(result, tune.TuneConfig("AM", data_dir=("DATA",)))
    assert capsys.readouterr().out.splitlines() == [
        "beam search: 42 of 1,201 tokens wrong, 1,043 of 1,234 characters wrong",
        f"best settings: {named}; saved in AM, plotted in AM/tuning.png",
    ]


@pytest.mark.long
def test_the_printed_calibration_error_is_cross_validated(tiny_export, model_dir, ngram, capsys, monkeypatch):
    wrong = calibration.Judged(np.ones(4), np.zeros(4, bool))
    monkeypatch.setattr(calibration, "fit_crosswise", lambda halves: wrong if len(halves) == 2 else None)
    tune.main(make_config(tiny_export, model_dir, ngram=ngram))
    assert " -> 100.0 % (each half of the utterances" in capsys.readouterr().out


@pytest.mark.long
def test_max_utterances_limits_a_large_split(tiny_export):
    """About half of the eight utterances are chosen, and always the same ones."""
    trained = trained_model.open_trained_model(tiny_export.acoustic_dir)
    infos = dataset_info.load_all([tiny_export.data_dir])
    source = splits.read_split(infos, [tiny_export.data_dir], "test", task_spec.ACOUSTIC)
    whole, *halves = (
        [
            text
            for batch in trials.compute_posteriors(trained, source, count)
            for text in batch["pronunciation"]
        ]
        for count in (8, 4, 4)
    )
    assert len(whole) == 8 and 0 < len(halves[0]) < 8
    assert halves[0] == halves[1] and set(halves[0]) <= set(whole)


def test_max_utterances_that_selects_no_utterance_is_refused(tiny_export, monkeypatch):
    monkeypatch.setattr(input_fn.zlib, "crc32", lambda name: 2**32 - 1)
    with pytest.raises(errors.UserError) as refused:
        tune.tune(make_config(tiny_export, tiny_export.acoustic_dir, max_utterances=1))
    assert str(refused.value) == (
        "tune: --max_utterances=1 selects none of the 8 utterances; set a larger number"
    )


def test_averaged_models_decode_alike(model_dir, ngram, tmp_path):
    model = save(model_dir, ngram, ngram_weight=0.5, token_bonus=2.0)
    model_directory.copy_description(model, str(tmp_path / "averaged"))
    copied = model_directory.open_model_directory(str(tmp_path / "averaged"))
    assert copied.decode == model.decode
    for name, value in vars(model.ngram).items():
        np.testing.assert_array_equal(getattr(copied.ngram, name), value)


def test_a_copy_replaces_what_the_target_had(model_dir, ngram, tmp_path):
    other = shutil.copytree(model_dir, tmp_path / "other")
    save(other, ngram, ngram_weight=0.5)
    decoding_files.copy(str(model_dir), str(other))
    assert not [*other.glob("ngram*"), *other.glob("decoding*")]


class Bench:
    """Recognises nothing with any settings, and records the settings and whether the language model ran."""

    untuned = config.DecodeConfig

    def __init__(self, language):
        self.language, self.trials = language, []

    def run(self, settings, with_language):
        self.trials.append((settings, with_language))
        return []


def test_among_equal_settings_the_first_is_chosen():
    bench = Bench(language=None)
    found = search.Search(bench, (utterances.TOKEN_ERROR_RATE,), True, False).run()
    *trials, last = (settings for settings, _ in bench.trials)
    # Greedy search, the first settings and two n-gram weights are each tried once.
    assert len(set(trials)) == len(trials) == 4
    assert last == found.steps[-1].settings  # the last run computes the confidences
    assert found.steps[-1].settings.ngram_weight == 0.0
    assert found.steps[-1].errors == {utterances.TOKEN_ERROR_RATE: 0}


def test_the_language_model_does_not_run_while_the_token_settings_are_chosen():
    bench = Bench(language="a model")
    search.Search(bench, (utterances.TOKEN_ERROR_RATE, utterances.CHARACTER_ERROR_RATE), True, False).run()
    assert [(each.ngram_weight, each.language_weight, has_run) for each, has_run in bench.trials] == [
        *((0.0, 0.0, True), (0.0, 0.0, True)),  # greedy search, beam search
        *((0.0, 0.0, False), (0.4, 0.0, False), (1.0, 0.0, False)),
        *((0.0, 0.3, True), (0.0, 0.0, True)),  # a language model weight; the last run, for the confidences
    ]


# Its only character is the more frequent one of the two that hao3 can be.
CHARACTER_ARPA = """\\data\\
ngram 1=4

\\1-grams:
-9\t<unk>
-99\t<s>
-1\t</s>
-0.01\t{}

\\end\\
"""


@pytest.mark.long
def test_a_language_model_alone(tiny_export, tmp_path, capsys):
    """The model writes 郝 for hao3 until the n-gram model corrects it; evaluate counts the same errors."""
    model_dir = tiny_models.make_language_model(str(tmp_path / "lm"), seed=3).path
    (tmp_path / "characters.arpa").write_text(CHARACTER_ARPA.format("好"), encoding="utf-8")
    data_dir, ngram = (tiny_export.data_dir,), str(tmp_path / "characters.arpa")
    tune.main(tune.TuneConfig(language_model_dir=model_dir, ngram=ngram, data_dir=data_dir, split="test"))
    before, after, saved = capsys.readouterr().out.splitlines()
    counts = [int(line.split(": ")[1].split(" of ")[0]) for line in (before, after)]
    assert (before.split(":")[0], after.split(":")[0]) == ("most probable characters", "n-gram model")
    assert counts[1] < counts[0]
    assert saved.startswith("best settings: ngram_weight ") and f"; saved in {model_dir}, " in saved
    for decoding, count in zip(("greedy", None), counts):
        settings = evaluate.EvaluateConfig(
            model_dir, None, data_dir, "test", str(tmp_path / f"report-{count}"), decoding=decoding
        )
        assert evaluate.evaluate(settings)["character_error_rate"]["errors"] == count


@pytest.mark.long
def test_settings_that_are_not_tuned_are_kept(tiny_export, model_dir):
    save(model_dir, beam_width=7, candidates=5, skipped_blank=0.9, confidence_offset=3.0, language_weight=0.5)
    settings = tune.tune(make_config(tiny_export, model_dir)).steps[-1].settings
    assert (settings.beam_width, settings.candidates, settings.skipped_blank) == (7, 5, 0.9)
    assert settings.language_weight == 0.0


NEEDS_NGRAM = (
    "tune: --language_model_dir without --acoustic_model_dir needs --ngram, an ARPA file of characters; "
    "create such a file with python -m estimator_asr.train_ngram --unit=character"
)
NO_MODEL = (
    "tune: neither --acoustic_model_dir nor --language_model_dir is set; pass the directory of the model to "
    "tune"
)
WHISPER_NEEDS = (
    "tune: --whisper_decoder needs both --acoustic_model_dir and --language_model_dir, because the decoder "
    "outputs the language model's characters; pass both"
)
PUNCTUATION_NEEDS = (
    "tune: --punctuation_model_dir needs --acoustic_model_dir (and --language_model_dir, if the transcripts "
    "come from a language model), without --ngram or --whisper_decoder"
)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"language_model_dir": "LM"}, NEEDS_NGRAM),
        ({}, NO_MODEL),
        ({"whisper_decoder": "W", "language_model_dir": "LM", "ngram": "n.arpa"}, WHISPER_NEEDS),
        ({"whisper_decoder": "W", "acoustic_model_dir": "AM", "ngram": "n.arpa"}, WHISPER_NEEDS),
        ({"punctuation_model_dir": "PM", "language_model_dir": "LM"}, PUNCTUATION_NEEDS),
        ({"punctuation_model_dir": "PM", "acoustic_model_dir": "AM", "ngram": "n.arpa"}, PUNCTUATION_NEEDS),
    ],
)
def test_incompatible_flags_are_refused(settings, message):
    with pytest.raises(errors.UserError) as refused:
        tune.TuneConfig(data_dir=("DATA",), **settings)
    assert str(refused.value) == message


def test_a_model_of_the_other_kind_is_refused(tiny_export):
    with pytest.raises(errors.UserError) as refused:
        tune.tune(make_config(tiny_export, tiny_export.language_dir))
    assert str(refused.value) == (
        f"{tiny_export.language_dir} contains the language model instead of the acoustic model; pass another "
        "--acoustic_model_dir"
    )


def test_models_that_do_not_fit_are_refused(tiny_export, model_dir, tmp_path):
    language = tiny_models.make_language_model(str(tmp_path / "lm"), token_type="toneless")
    with pytest.raises(
        errors.UserError, match=r"^tune: --acoustic_model_dir=.* outputs syllable tokens, but "
    ):
        tune.tune(make_config(tiny_export, model_dir, language_model_dir=language.path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "cannot be read (Expecting property name"),
        (b"[" * 100_000, "cannot be read (it is nested too deeply"),
        (b'{"decode": {"beam": 3}}', "cannot be read (SavedDecoding: key ngram_sha256 is missing"),
        (
            b'{"decode": {"beam": 3}, "ngram_sha256": ""}',
            "cannot be read (SavedDecoding.decode: unknown key beam",
        ),
    ],
)
def test_damaged_settings_are_named(model_dir, content, message):
    (model_dir / "decoding.json").write_bytes(content)
    with pytest.raises(errors.UserError) as refused:
        model_directory.open_model_directory(str(model_dir))
    assert str(refused.value).startswith(f"{model_dir}/decoding.json: {message}")
    assert str(refused.value).endswith(TUNE_AGAIN)


def write_array(file):
    with file.open("wb") as opened:
        np.save(opened, np.zeros(3))


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:100]),
        lambda file: np.savez(file, order=1),
        write_array,
        lambda file: file.unlink(),
    ],
)
def test_damaged_ngram_models_are_named(model_dir, ngram, damage):
    save(model_dir, ngram, ngram_weight=0.5)
    (file,) = model_dir.glob("ngram-*.npz")
    damage(file)
    with pytest.raises(errors.UserError) as refused:
        model_directory.open_model_directory(str(model_dir))
    assert str(refused.value).startswith(f"{file}: cannot be read (")
    assert str(refused.value).endswith(TUNE_AGAIN)


def test_an_ngram_model_of_another_vocabulary_is_refused(model_dir, ngram):
    save(model_dir, ngram, ngram_weight=0.5)
    with pytest.raises(errors.UserError, match="npz has 6 tokens, expected 7; restore it"):
        decoding_files.load(str(model_dir), num_tokens=7)


def test_a_killed_run_leaves_the_previous_settings_and_model(model_dir, ngram, tmp_path, monkeypatch):
    before = save(model_dir, ngram, ngram_weight=0.5)
    (tmp_path / "other.arpa").write_text(ARPA.replace("-4\tshi4", "-3\tshi4"), encoding="utf-8")
    monkeypatch.setattr(decoding_files.files, "write_text", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(model_dir, str(tmp_path / "other.arpa"), ngram_weight=0.7)
    after = model_directory.open_model_directory(str(model_dir))
    assert after.decode == before.decode
    np.testing.assert_array_equal(after.ngram.unigram_log_probs, before.ngram.unigram_log_probs)


@pytest.fixture(scope="module")
def made_models(tmp_path_factory):
    path = tmp_path_factory.mktemp("whisper")
    acoustic = tiny_models.make_pretrained_model(str(path / "am"), "whisper", layers=(1, 3))
    tiny_models.make_language_model(str(path / "lm"))

    def extract(waveform):
        return parity.extract_features(acoustic, [waveform])[0]

    tiny_models.make_data(str(path / "data"), extract=extract, features=acoustic.config.frontend)
    return path


@pytest.fixture
def whisper_models(made_models, tmp_path):
    """Model directories on top of a small Whisper, its published files in am-whisper, and data for it."""
    return shutil.copytree(made_models, tmp_path / "whisper")


def tune_whisper(path):
    settings = {"language_model_dir": f"{path}/lm", "whisper_decoder": f"{path}/am-whisper", "split": "test"}
    return tune.tune(tune.TuneConfig(f"{path}/am", data_dir=(f"{path}/data",), **settings))


@pytest.mark.long
def test_an_export_with_whispers_decoder_makes_the_errors_that_tune_counted(whisper_models, monkeypatch):
    """The export includes the decoder that tune saved, and makes the errors that tune counted last."""
    path = whisper_models
    found = tune_whisper(path)
    step = found.steps[-1]
    assert step.name == "reranking by Whisper's decoder"
    assert (
        step.errors[utterances.CHARACTER_ERROR_RATE] < found.steps[-2].errors[utterances.CHARACTER_ERROR_RATE]
    )
    saved = model_directory.open_model_directory(f"{path}/am")
    assert saved.decode == step.settings and saved.decode.whisper_weight > 0
    np.testing.assert_array_equal(saved.whisper.readings, found.whisper.readings)
    exported = export.export(
        export.ExportConfig(
            f"{path}/am", f"{path}/lm", export_dir=f"{path}/export", data_dir=(f"{path}/data",), split="test"
        )
    )
    metrics = evaluate.evaluate(
        evaluate.EvaluateConfig(None, exported, (f"{path}/data",), "test", f"{path}/report")
    )
    assert {name: metrics[name]["errors"] for name in step.errors} == step.errors
    assert [file.name[:8] for file in (path / "am").glob("*.npz")] == ["whisper-"]
    plain = export.export(
        export.ExportConfig(f"{path}/am", f"{path}/lm", export_dir=f"{path}/plain", whisper_decoder=False)
    )
    # Without a language model, the decoder has no characters to propose.
    tokens = export.export(export.ExportConfig(f"{path}/am", None, export_dir=f"{path}/tokens"))
    infos = [export_info.load(each) for each in (exported, plain, tokens)]
    assert [float(each.acoustic.decode["whisper_weight"]) > 0 for each in infos] == [True, False, False]
    sizes = [
        sum(each.num_bytes for name, each in info.files.items() if "variables" in name) for info in infos
    ]
    num_values = sum(each.size for each in saved.whisper.weights.values())
    assert sizes[0] - sizes[1] == pytest.approx(4 * num_values, rel=0.1)


@pytest.mark.long
def test_a_decoder_that_does_not_help_is_not_kept(whisper_models, monkeypatch):
    monkeypatch.setattr(trials, "count_edits", lambda *texts: 99)
    found = tune_whisper(whisper_models)
    assert found.steps[-1].settings.whisper_weight == 0
    assert found.steps[-1].errors == found.steps[-2].errors
    assert not list((whisper_models / "am").glob("*.npz"))


def keep_whisper(path, **changes):
    """Saves the decoder as tune does, with some of its fields changed."""
    acoustic, language = (model_directory.open_model_directory(f"{path}/{name}") for name in ("am", "lm"))
    whisper = decoder_weights.compile_decoder(f"{path}/am-whisper", acoustic, language)
    vars(whisper).update(changes)
    decoding = decoding_files.Decoding(config.DecodeConfig(whisper_weight=1.0), whisper=whisper)
    decoding_files.save(f"{path}/am", decoding)
    return next((path / "am").glob("whisper-*.npz"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["tokens", "encoder"])
def test_a_decoder_of_another_acoustic_model_is_refused(whisper_models, name):
    keep_whisper(whisper_models, **{f"{name}_sha256": "0123456789abcdef"})
    with pytest.raises(errors.UserError) as refused:
        model_directory.open_model_directory(f"{whisper_models}/am")
    assert f"am: Whisper's decoder: the sha256 of its {name} is 0123456789ab, expected" in str(refused.value)
    assert str(refused.value).endswith(
        "; remove decoding.json and run python -m estimator_asr.tune --whisper_decoder again"
    )


@pytest.mark.long
def test_a_decoder_for_another_language_model_is_refused(whisper_models, tmp_path):
    keep_whisper(whisper_models, readings_sha256="0123456789abcdef")
    with pytest.raises(
        errors.UserError, match="export: Whisper's decoder of .*am: the sha256 of its readings is 01"
    ):
        export.export(
            export.ExportConfig(
                f"{whisper_models}/am", f"{whisper_models}/lm", export_dir=str(tmp_path / "x")
            )
        )


@pytest.mark.long
def test_tune_makes_a_decoder_again_for_another_language_model(whisper_models):
    keep_whisper(whisper_models, readings_sha256="0123456789abcdef")
    made = tune_whisper(whisper_models).whisper
    assert (
        made.readings_sha256
        == model_directory.open_model_directory(f"{whisper_models}/lm").config.readings_sha256
    )


@pytest.mark.long
def test_damaged_decoders_are_named_and_copies_are_whole(whisper_models, tmp_path):
    file, again = keep_whisper(whisper_models), "; restore it from a copy, or remove decoding.json"
    shutil.copytree(whisper_models / "am", tmp_path / "copy", ignore=shutil.ignore_patterns("whisper-*"))
    decoding_files.copy(str(whisper_models / "am"), str(tmp_path / "copy"))
    assert model_directory.open_model_directory(str(tmp_path / "copy")).whisper.heads == 2
    for content in (b"", file.read_bytes()[:5000]):
        file.write_bytes(content)
        with pytest.raises(errors.UserError) as refused:
            model_directory.open_model_directory(str(whisper_models / "am"))
        assert str(refused.value).startswith(f"{file}: cannot be read (") and again in str(refused.value)
    np.savez(file, heads=2)
    with pytest.raises(errors.UserError, match="cannot be read"):
        model_directory.open_model_directory(str(whisper_models / "am"))


def test_a_weight_without_a_decoder_is_refused(model_dir):
    with pytest.raises(errors.UserError) as refused:
        save(model_dir, whisper_weight=0.5)
    message = "decoding.json: whisper_weight is 0.5, but whisper_sha256 is missing; restore it from a copy"
    assert message in str(refused.value)


@pytest.mark.long
def test_the_weight_of_pauses_is_saved_with_the_punctuation_model(tiny_export, tmp_path, capsys):
    tiny_models.make_punctuation_model(str(tmp_path / "pm"))
    tiny_models.make_data(str(tmp_path / "data"), final_mark="。")
    models = {"language_model_dir": tiny_export.language_dir, "punctuation_model_dir": str(tmp_path / "pm")}
    data = {"data_dir": (str(tmp_path / "data"),), "split": "test"}
    assert tune.main(tune.TuneConfig(tiny_export.acoustic_dir, **models, **data)) is None
    printed = capsys.readouterr().out
    opened = model_directory.open_model_directory(str(tmp_path / "pm"))
    f1s = re.fullmatch(
        r"F1 of ，。？ on 8 utterances: (\d+\.\d) % without pauses, (\d+\.\d) % with pause_weight "
        rf"{opened.decode.pause_weight:g}, pause_offset {opened.decode.pause_offset:g} s; "
        rf"saved in {tmp_path}/pm\n",
        printed,
    )
    assert 0 <= float(f1s[1]) <= float(f1s[2]) <= 100
