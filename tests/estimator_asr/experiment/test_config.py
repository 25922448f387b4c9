import pytest

from estimator_asr.experiment import config, training_config
from tfrecord_builder import errors


@pytest.mark.parametrize(
    "build, said",
    [
        (
            lambda: training_config.TrainConfig(train_steps=10, train_epochs=2.0),
            "--train_steps=10 and --train_epochs=2 are both set; leave one of them out",
        ),
        (
            lambda: training_config.OptimizerConfig(decay_boundary_epochs=(1.0,), decay_factors=(1.0,)),
            "--decay_factors has 1 values and --decay_boundary_epochs has 1; there must be one more factor",
        ),
        (
            lambda: training_config.OptimizerConfig(
                decay_boundary_epochs=(2.0, 1.0), decay_factors=(1.0, 0.5, 0.1)
            ),
            "--decay_boundary_epochs=2,1 must be increasing; sort the values",
        ),
        (
            lambda: training_config.OptimizerConfig(warmup_epochs=-1.0),
            "flag --warmup_epochs=-1.0: expected at least 0",
        ),
        (lambda: config.InputConfig(batch_frames=0), "flag --batch_frames=0: expected more than 0"),
        (
            lambda: training_config.TrainConfig(seed=99999999999999999999),
            "flag --seed=99999999999999999999: expected at least -1000000000000000000 and at most "
            "1000000000000000000",
        ),
        (lambda: training_config.TrainConfig(seed=10**400), "flag --seed=1000.*: expected at least"),
        (
            lambda: training_config.TrainConfig(model="both"),
            "flag --model=both: expected one of acoustic, language",
        ),
        (
            lambda: config.LanguageConfig(language_units=30),
            "--language_units is 30, expected an even number and a multiple of 4, the number of",
        ),
        (
            lambda: config.AcousticConfig(softmax="nce", decoder_layers=0),
            "--softmax=nce is for the attention decoder, but --decoder_layers is 0; leave one of them out",
        ),
        (lambda: config.AcousticConfig(softmax="half"), "--softmax=half: expected one of full, sampled, nce"),
        (lambda: config.AcousticConfig(num_sampled=0), "flag --num_sampled=0: expected more than 0"),
    ],
)
def test_invalid_settings_are_refused_with_the_flag(build, said):
    with pytest.raises(errors.UserError, match=said):
        build()
