"""For every token type, builds a corpus, exports an untrained model, transcribes and evaluates."""

import dataclasses
import re

import pytest
import small_corpora
import small_models
import tiny_models

from estimator_asr import evaluate, export
from estimator_asr.experiment import experiment, training_config
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.transcripts import recordings, transcriber
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.building import builder
from tfrecord_builder.data import vocabulary
from tfrecord_builder.labels import labelling, vocabularies


def build(corpus_dir, output_dir, token_type, **vocabulary_options):
    options = dict(corpus_dir=(corpus_dir,), output_dir=str(output_dir), num_shards=1, num_workers=1)
    return builder.build(
        builder.BuildConfig(**options),
        frontend.FrontendConfig(num_mel_bins=20),
        label_config=labelling.LabelConfig(token_type=token_type),
        vocabulary_config=vocabularies.VocabularyConfig(**vocabulary_options),
    )


def make_model(info, data_dir, model_dir):
    settings = experiment.ExperimentConfig.for_data(
        info,
        acoustic=small_models.ACOUSTIC,
        train=training_config.TrainConfig(model="acoustic", train_steps=1),
        watch=training_config.WatchConfig(try_worst_batch=False),
        display=training_config.DisplayConfig(show_utterances=0),
    )
    return small_models.create_or_check(str(model_dir), settings, str(data_dir))


def evaluate_as_advised(version, corpus_dir, info, directory):
    """Rebuilds the data with the flags that the error about a wrong vocabulary names, and evaluates."""
    other = directory / "other"
    other.mkdir()
    dataclasses.replace(info, tokens_sha256="0" * 64).save(str(other))
    given = dict(saved_model=version, split="dev", output_dir=str(directory / "report"))
    with pytest.raises(errors.UserError, match=r"tokens.txt is 0{12}, .*; build the data with --") as refusal:
        evaluate.evaluate(evaluate.EvaluateConfig(data_dir=(str(other),), **given))
    flags = dict(re.findall(r"--(\w+)=([^\s,]+)", str(refusal.value).partition("build the data with")[2]))
    token_type, vocabulary_dir = flags.pop("token_type"), flags.pop("vocabulary_dir")
    features = {name: str(value) for name, value in vars(info.frontend).items() if name != "encoder"}
    assert flags == features
    build(corpus_dir, directory / "advised", token_type, vocabulary_dir=vocabulary_dir)
    return evaluate.evaluate(evaluate.EvaluateConfig(data_dir=(str(directory / "advised"),), **given))


@pytest.mark.long
@pytest.mark.parametrize(
    "token_type",
    [
        "bpe",
        "initial_final",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("syllable", "toneless", "character")),
    ],
)
def test_from_a_corpus_to_a_transcript(tmp_path, token_type):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in")
    info = build(corpus_dir, tmp_path / "data", token_type)
    model = make_model(info, tmp_path / "data", tmp_path / "am")
    tiny_models.save_weights(model)

    version = export.export(export.ExportConfig(model.path, None, export_dir=str(tmp_path / "export")))
    loaded = recogniser.load(version, "waveform")
    (recording,) = recordings.find([str(tmp_path / "in" / "audio" / "u01.wav")])
    (segment,) = transcriber.transcribe(loaded, recording, 16000).segments
    result = segment.result
    assert result["transcript"] == vocabulary.join_tokens(result["pinyin"].split(), token_type)

    metrics = evaluate_as_advised(version, corpus_dir, info, tmp_path)
    assert metrics["token_error_rate"]["reference_length"] == info.splits["dev"].num_tokens
    assert ("character_error_rate" in metrics) == (token_type in ("character", "bpe"))
