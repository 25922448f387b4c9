"""Feature extraction in core TensorFlow ops, shared by the builder and the exported model.

`log_mel` is Kaldi's fbank with default options (feature-window.cc, feature-fbank.cc, mel-computations.cc) but
without dither. `log_spectrogram` is log(|FFT| + 1) with a Hamming window. In both, a frame depends only on
the samples in its window, so padding at the end adds frames but does not change the earlier frames.
`whisper_log_mel` has its own module. `waveform` cuts the samples into frames for encoders that have learned
their own features.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Optional, Union

import numpy as np

from tfrecord_builder import errors
from tfrecord_builder.audio import pretrained_encoder
from tfrecord_builder.program import config_flags
from tfrecord_builder.program import lazy_tensorflow as tf

INT16_SCALE = 32768.0  # log_mel and log_spectrogram use the range of 16-bit samples, as Kaldi does
PRE_EMPHASIS = 0.97  # Kaldi's preemph_coeff (feature-window.h)
LOW_HZ = 20.0  # Kaldi's low_freq (mel-computations.h); the upper edge is the Nyquist frequency
POVEY_POWER = 0.85  # exponent of Kaldi's window "povey" (feature-window.cc)
ENERGY_FLOOR = float(np.finfo(np.float32).eps)  # Kaldi's lower limit of mel energies (feature-fbank.cc)

# Frontends for pretrained encoders, with the allowed values of num_mel_bins; Whisper large-v3 uses 128.
PRETRAINED_MEL_BINS = {"whisper_log_mel": (80, 128), "waveform": (80,)}
# Longest utterance for a pretrained encoder: Whisper has 1500 positions (Radford et al. 2022, section 2.2);
# HuBERT was trained on up to 16 seconds, and its attention needs memory quadratic in the length.
PRETRAINED_SECONDS = 30
WAVEFORM_LEAST_FRAMES = 3  # 480 samples; the encoder needs at least 400 to produce an output

IntOrTensor = Union[int, "tf.Tensor"]


@dataclasses.dataclass(frozen=True)
class FrontendConfig(config_flags.Checked):
    """Feature settings, which must be the same for a model and its data."""

    frontend: str = config_flags.setting(
        "log_mel",
        "acoustic features; whisper_log_mel is for Whisper's encoder, waveform for HuBERT and wav2vec 2.0",
        choices=("log_mel", "log_spectrogram", *PRETRAINED_MEL_BINS),
    )
    sample_rate: int = config_flags.setting(
        16000, "sample rate in Hz; audio with another sample rate is resampled", minimum=4000, maximum=96000
    )
    num_mel_bins: int = config_flags.setting(
        80, "number of mel bins: 4 to 256 for log_mel, 80 or 128 for whisper_log_mel", minimum=4, maximum=256
    )
    window_ms: float = config_flags.setting(25.0, "window length in ms", minimum=5, maximum=200)
    hop_ms: float = config_flags.setting(10.0, "frame shift in ms", minimum=1, maximum=100)
    # Set if the records contain a frozen encoder's outputs (see estimator_asr.encode) instead of its inputs.
    encoder: Optional[pretrained_encoder.Applied] = None

    def __post_init__(self):
        super().__post_init__()
        if self.frontend in PRETRAINED_MEL_BINS:
            self._check_pretrained()
        if self.frontend == "log_spectrogram" and self.num_mel_bins != FrontendConfig.num_mel_bins:
            raise errors.UserError(
                f"--frontend={self.frontend}, --num_mel_bins={self.num_mel_bins}: a spectrogram has no mel "
                "bins; leave one of the two flags out."
            )
        if self.frontend == "log_mel" and not mel_weights(self).any(axis=0).all():
            raise errors.UserError(
                f"--num_mel_bins={self.num_mel_bins} with --sample_rate={self.sample_rate} and "
                f"--window_ms={self.window_ms:g}: some mel bins contain no FFT frequency; use fewer bins"
            )

    def _check_pretrained(self):
        """Raises UserError if the settings differ from those used to train the pretrained encoders."""
        usual = {name: (getattr(FrontendConfig, name),) for name in ("sample_rate", "window_ms", "hop_ms")}
        for name, values in {**usual, "num_mel_bins": PRETRAINED_MEL_BINS[self.frontend]}.items():
            if getattr(self, name) not in values:
                raise errors.UserError(
                    f"--{name} is {getattr(self, name):g}, expected {' or '.join(f'{v:g}' for v in values)} "
                    f"for --frontend={self.frontend}; leave --{name} out"
                )

    @property
    def max_seconds(self) -> float:
        """Maximum duration in seconds: PRETRAINED_SECONDS for pretrained encoders, otherwise inf."""
        return PRETRAINED_SECONDS if self.frontend in PRETRAINED_MEL_BINS else math.inf

    @property
    def window_samples(self) -> int:
        return int(self.sample_rate * 0.001 * self.window_ms)

    @property
    def hop_samples(self) -> int:
        return int(self.sample_rate * 0.001 * self.hop_ms)

    @property
    def frame_seconds(self) -> float:
        """Frame shift in seconds; if the records contain encoder outputs, the time between two outputs."""
        subsampling = self.encoder.encoder.subsampling if self.encoder else 1
        return subsampling * self.hop_samples / self.sample_rate

    @property
    def num_bins(self) -> int:
        """Number of values per frame: mel bins, FFT bins (half the window), samples or encoder outputs."""
        if self.encoder:
            return self.encoder.num_bins
        counts = {"log_spectrogram": self.window_samples // 2, "waveform": self.hop_samples}
        return counts.get(self.frontend, self.num_mel_bins)


def input_of(encoder: pretrained_encoder.PretrainedEncoder) -> FrontendConfig:
    """Returns the feature settings that a pretrained encoder expects as input."""
    name = pretrained_encoder.FAMILIES[encoder.family]
    return FrontendConfig(frontend=name, num_mel_bins=encoder.num_mel_bins)


def check_input(where: str, config: FrontendConfig, encoder: pretrained_encoder.PretrainedEncoder) -> None:
    """Raises UserError if a pretrained encoder cannot read the features; the message begins with `where`."""
    want = input_of(encoder)
    if (config.frontend, config.num_mel_bins) != (want.frontend, want.num_mel_bins):
        raise errors.UserError(
            f"{where}: features are {config.frontend} with {config.num_bins} values per frame, but "
            f"{encoder.family} needs {want.frontend} with {want.num_bins}; build the data with "
            f"--frontend={want.frontend} --num_mel_bins={want.num_mel_bins}"
        )


def num_frames(num_samples: IntOrTensor, config: FrontendConfig) -> IntOrTensor:
    """Returns the number of frames of a waveform.

    Counts the windows that fit into the waveform (Kaldi's snip_edges). For a pretrained encoder, counts hops
    instead, or outputs if the records contain outputs. The count is 0 if HuBERT or wav2vec 2.0 needs more
    samples to produce an output.
    """
    if config.frontend in PRETRAINED_MEL_BINS:
        count = num_samples // config.hop_samples
        if config.frontend == "waveform":
            count = _zero_below(count, WAVEFORM_LEAST_FRAMES)
        return num_outputs(count, config.encoder.encoder) if config.encoder else count
    count = (num_samples - config.window_samples + config.hop_samples) // config.hop_samples
    return _zero_below(count, 1)


def num_outputs(num_frames: IntOrTensor, encoder: pretrained_encoder.PretrainedEncoder) -> IntOrTensor:
    """Returns the number of outputs that a pretrained encoder produces for a number of frontend frames."""
    if encoder.waveform:
        # One output per complete window of 400 samples, at a hop of 320 samples; a frame has 160 samples.
        return _zero_below((num_frames - 1) // 2, 1)
    return num_subsampled_frames(num_frames, encoder.subsampling)


def _zero_below(count, least):
    if isinstance(count, int):
        return count if count >= least else 0
    return tf.where(count < least, 0, count)


def num_subsampled_frames(num_frames: IntOrTensor, factor: int) -> IntOrTensor:
    """Returns the number of frames after subsampling: ceil(num_frames / factor)."""
    return (num_frames + (factor - 1)) // factor


def log_mel_of(features: np.ndarray, config: FrontendConfig) -> np.ndarray:
    """Returns log-mel features or a spectrogram, [num_frames, num_bins], from the features of a record."""
    if config.encoder:
        num_stacked = config.encoder.encoder.subsampling * config.num_mel_bins
        return features[:, :num_stacked].reshape(-1, config.num_mel_bins)
    if config.frontend == "waveform":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            return session.run(extract(tf.constant(features.reshape(-1), tf.float32), FrontendConfig()))
    return features


def extract(
    waveform: tf.Tensor, config: FrontendConfig, num_samples: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """Computes the features of waveforms; does not apply an encoder.

    Args:
        waveform: float32 [..., max_samples] in [-1, 1], at config.sample_rate; rank 1 or 2 for
            whisper_log_mel.
        num_samples: int32 [...], lengths without padding; None if there is no padding. Used only by
            whisper_log_mel, which ignores samples in the padding.

    Returns:
        float32 [..., num_frames, num_features]; frames in the padding are zeros or the features of silence.
    """
    with tf.name_scope(config.frontend):
        if config.frontend == "whisper_log_mel":
            from tfrecord_builder.audio import whisper_log_mel

            return whisper_log_mel.extract(waveform, num_samples, config.num_mel_bins)
        if config.frontend == "waveform":
            return tf.signal.frame(waveform, config.hop_samples, config.hop_samples)
        frames = tf.signal.frame(waveform * INT16_SCALE, config.window_samples, config.hop_samples)
        return {"log_mel": _log_mel, "log_spectrogram": _log_spectrogram}[config.frontend](frames, config)


def _log_mel(frames: tf.Tensor, config: FrontendConfig) -> tf.Tensor:
    frames -= tf.reduce_mean(frames, axis=-1, keepdims=True)
    previous = tf.concat([frames[..., :1], frames[..., :-1]], axis=-1)  # Kaldi repeats the first sample
    phase = 2 * np.pi * np.arange(config.window_samples) / (config.window_samples - 1)
    window = np.power(0.5 - 0.5 * np.cos(phase), POVEY_POWER).astype(np.float32)
    frames = (frames - PRE_EMPHASIS * previous) * window
    # The frames are padded here because the padding in tf.signal.rfft fails if there are no frames.
    padding = _fft_length(config.window_samples) - config.window_samples
    paddings = [[0, 0]] * (frames.shape.rank - 1) + [[0, padding]]
    frames = tf.pad(frames, paddings)  # [..., num_frames, fft_length]
    spectrum = tf.signal.rfft(frames)  # [..., num_frames, fft_length / 2 + 1]
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    energies = tf.tensordot(power, mel_weights(config), axes=1)  # [..., num_frames, num_mel_bins]
    return tf.math.log(tf.maximum(energies, ENERGY_FLOOR))


def _log_spectrogram(frames: tf.Tensor, config: FrontendConfig) -> tf.Tensor:
    window = np.hamming(config.window_samples).astype(np.float32)
    magnitudes = tf.abs(tf.signal.rfft(frames * window))  # [..., num_frames, window_samples / 2 + 1]
    return tf.math.log1p(magnitudes[..., : config.num_bins])


def mel_weights(config: FrontendConfig) -> np.ndarray:
    """Returns Kaldi's triangular mel filters, float32 [fft_length / 2 + 1, num_mel_bins]."""
    fft_length = _fft_length(config.window_samples)
    nyquist_hz = config.sample_rate / 2
    edges = np.linspace(_hz_to_mel(LOW_HZ), _hz_to_mel(nyquist_hz), config.num_mel_bins + 2)
    lower, center, upper = edges[:-2], edges[1:-1], edges[2:]
    mel = _hz_to_mel(np.arange(fft_length // 2) * config.sample_rate / fft_length)[:, np.newaxis]
    weights = np.maximum(0, np.minimum((mel - lower) / (center - lower), (upper - mel) / (upper - center)))
    return np.pad(weights, ((0, 1), (0, 0))).astype(np.float32)  # Kaldi leaves out the Nyquist bin


def _hz_to_mel(hz: np.ndarray) -> np.ndarray:
    return 1127.0 * np.log1p(np.asarray(hz, np.float64) / 700.0)  # Kaldi's MelScale (mel-computations.h)


def _fft_length(window_samples: int) -> int:
    return 1 << (window_samples - 1).bit_length()  # Kaldi's round_to_power_of_two
