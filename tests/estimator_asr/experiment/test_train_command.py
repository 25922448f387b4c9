import pytest
from absl import flags

from estimator_asr.experiment import config, train_command
from tfrecord_builder.program import config_flags

# All flags in the flag files of version 0.1.0, each with one of its values.
OLD_FLAGS = """
--acoustic_dropout=0 --batch_frames=4000 --batch_tokens=1000 --decay_boundary_epochs=5,8
--decay_factors=1,0.3,0.1 --decoder_layers=0 --encoder=whisper --encoder_inner_units=288 --encoder_layers=4
--encoder_units=144 --language_inner_units=256 --language_layers=2 --language_units=128
--learning_rate=0.00194 --model=language --ngram_rows=8191 --ngram_units=32 --nospec_augment
--save_checkpoints_steps=1000 --shuffle_records=200000 --token_noise=0.1 --train_epochs=7
--warmup_epochs=0.7
""".split()
CONSTANTS = {
    **{"adam_beta1": "0.9", "adam_beta2": "0.98", "adam_epsilon": "1e-09", "momentum": "0.9"},
    **{"attention_heads": "4", "conv_kernel_size": "15", "language_heads": "4", "subsampling_channels": "32"},
    **{"frequency_mask_bins": "15", "frequency_masks": "2", "time_mask_fraction": "0.2"},
    **{"time_mask_frames": "40", "time_masks": "2", "plateau_evaluations": "3", "plateau_factor": "0.5"},
    **{"constant_loss_steps": "500", "pretrained_rate_decay": "0.7", "progress_seconds": "10.0"},
}
REPLACED = {
    "decay_epochs": "use --decay_rate, which applies once per epoch",
    "eval_throttle_seconds": "use --save_checkpoints_steps to evaluate less often",
    "gpu_memory_growth": "set the environment variable TF_FORCE_GPU_ALLOW_GROWTH=true instead",
    "keep_checkpoint_max": "the five latest checkpoints are kept; for more of the best ones, use "
    "--keep_best_checkpoints",
    "label_smoothing": "it is always 0.1 with --softmax=full and has no effect otherwise",
    "learning_rate_batch_size": "set --learning_rate to the rate for your batch size",
    "max_first_step_minutes": "use --max_step_minutes; the first step may take three times as long",
}


def parse(*words):
    values = flags.FlagValues()
    for config_class in (train_command.RunConfig, config.Settings):
        config_flags.define(config_class, values, train_command.GROUPS)
    values(["train", "--data_dir=DATA", "--model_dir=AM", *words])
    config_flags.from_flags(train_command.RunConfig, values)
    return config_flags.from_flags(config.Settings, values)


@pytest.mark.parametrize(
    "words, shape",
    [
        ([], (6, 256, 512)),
        (["--size=small"], (4, 192, 512)),
        (["--size=base"], (6, 256, 512)),
        (["--size=large"], (12, 256, 1024)),
        (["--encoder_layers=6", "--size=large"], (6, 256, 1024)),  # 6 is the default of another size
        (["--size=small", "--encoder_units=144", "--encoder_inner_units=288"], (4, 144, 288)),
    ],
)
def test_the_size_sets_the_shape_of_the_encoder_and_flags_of_the_shape_win(words, shape):
    acoustic = parse(*words).acoustic
    assert (acoustic.encoder_layers, acoustic.encoder_units, acoustic.encoder_inner_units) == shape


def test_the_flags_of_old_flag_files_are_accepted():
    settings = parse(*OLD_FLAGS)
    assert (settings.train.model, settings.train.train_epochs) == ("language", 7)
    assert (settings.acoustic.encoder_layers, settings.acoustic.encoder_units) == (4, 144)
    assert settings.input == config.InputConfig(
        batch_frames=4000, batch_tokens=1000, spec_augment=False, shuffle_records=200000
    )


def test_each_removed_flag_has_a_replacement():
    constants = {
        name: f"its value is always {value}, so leave the flag out" for name, value in CONSTANTS.items()
    }
    assert config_flags.find_removed(config.Settings) == {**constants, **REPLACED}
