"""Training and evaluating a punctuation model, and the data that it and the other models refuse."""

import csv
import json
import pathlib

import built_data
import pytest
import small_records
import tensorflow as tf

from estimator_asr import doctor, evaluate
from estimator_asr import train as train_program
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory, train_command, training_config
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info

SETTINGS = config_lib.Settings(
    punctuation=train_command.PUNCTUATION_SIZES["small"],
    input=config_lib.InputConfig(batch_tokens=200),
    optimizer=training_config.OptimizerConfig(learning_rate=0.004, warmup_epochs=0),
    train=training_config.TrainConfig(model="punctuation", train_steps=30, save_checkpoints_steps=30),
    watch=training_config.WatchConfig(watchdog=False),
)


@pytest.fixture(autouse=True)
def _eager_stays_on(monkeypatch):
    monkeypatch.setattr(tf.compat.v1, "disable_eager_execution", lambda: None)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("punctuation")
    built_data.make_punctuated(path)
    small_records.make_data(str(path / "speech"), splits=[("train", 3)])
    small_records.make_data(str(path / "text"), splits=[("train", 3)], with_audio=False)
    return path


def _refuse(path, model):
    settings = config_lib.Settings(train=training_config.TrainConfig(model=model))
    with pytest.raises(errors.UserError) as refused:
        train_program.run([str(path)], str(path / "new"), settings, "train")
    assert not (path / "new").exists()
    return str(refused.value)


@pytest.mark.parametrize("model", ["acoustic", "language"])
def test_the_other_models_refuse_texts_with_marks(directory, model):
    assert _refuse(directory / "marks", model) == (
        f"{directory / 'marks'} contains texts with punctuation marks, which the {model} model cannot read; "
        "pass another --data_dir, or train with --model=punctuation"
    )


@pytest.mark.parametrize("data", ["speech", "text"])
def test_the_punctuation_model_refuses_other_data(directory, data):
    assert _refuse(directory / data, "punctuation") == (
        f"{directory / data} contains no punctuation marks, which the punctuation model needs; pass data "
        "built with --corpus=punctuated"
    )


def test_the_size_chooses_the_shape():
    run_config = train_command.RunConfig(data_dir=("d",), model_dir="m", size="small")
    settings = train_command.apply_size(run_config, config_lib.Settings())
    assert settings.punctuation == train_command.PUNCTUATION_SIZES["small"] != config_lib.PunctuationConfig()


@pytest.fixture(scope="module")
def model_dir(directory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.compat.v1, "disable_eager_execution", lambda: None)
        with tf.Graph().as_default():
            path, data_dir = str(directory / "model"), str(directory / "marks")
            assert train_program.run([data_dir], path, SETTINGS, "train") == 0
    return path


@pytest.mark.long
def test_a_model_keeps_its_characters_alone(model_dir):
    assert {path.name for path in pathlib.Path(model_dir).glob("*.t[xs]*")} == {"characters.txt"}
    model = model_directory.open_model_directory(model_dir)
    assert (model.tokens.tokens, model.readings) == (("<unk>",), None)


@pytest.mark.long
def test_an_evaluation_writes_rates_texts_and_a_page(directory, model_dir, tmp_path, capsys):
    config = evaluate.EvaluateConfig(
        model_dir=model_dir, data_dir=(str(directory / "marks"),), split="train", output_dir=str(tmp_path)
    )
    evaluate.main(config)
    assert "commas stops questions: F1 " in capsys.readouterr().out
    metrics = json.loads((tmp_path / "metrics.json").read_text("utf-8"))
    info = dataset_info.DatasetInfo.load(str(directory / "marks"))
    assert metrics["all_marks"]["num_expected"] == info.splits["train"].num_marks
    assert metrics["by_speaker"]["paragraphs"]["，"] == metrics["，"]
    with open(tmp_path / "hypotheses.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) == info.splits["train"].num_utterances
    assert "，" in "".join(row["reference"] for row in rows)
    assert "Texts with the most wrong marks" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.long
def test_the_doctor_examines_data_and_model(directory, model_dir, capsys):
    config = doctor.DoctorConfig(data_dir=(str(directory / "marks"),), model_dir=model_dir)
    doctor.main(config)
    shown = capsys.readouterr().out
    assert "problem " not in shown.partition("timings")[2]
    assert "train: 5 utterances" not in shown and " marks, 2 shards" in shown
    assert "the first batch matches its" in shown and "characters/s" in shown
