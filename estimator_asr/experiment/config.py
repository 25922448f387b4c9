"""Settings for training (Settings, the flags of estimator_asr.train) and for decoding (DecodeConfig)."""

from __future__ import annotations

import dataclasses
from typing import Optional

from estimator_asr.experiment import training_config
from tfrecord_builder import errors
from tfrecord_builder.audio import pretrained_encoder
from tfrecord_builder.program import config_flags

setting, constant = config_flags.setting, config_flags.constant
FULL = "full"  # value of AcousticConfig.softmax for cross-entropy over all tokens
CHUNK_FRAMES = (16, 64)  # shortest and longest chunks of a streaming model, in frames (160 and 640 ms)
CHUNK_STEP = 4  # input frames per output frame of a streaming encoder; chunk lengths are multiples of it


def _fraction(default: float, help: str) -> float:
    """Returns a setting for regularisation: a fraction that may change when training is continued."""
    return setting(default, help, minimum=0, maximum=0.9, training_only=True)


@dataclasses.dataclass(frozen=True)
class AcousticConfig(config_flags.Checked):
    """Settings for the acoustic model (speech to tokens): encoder, CTC head and attention decoder."""

    encoder: str = setting(
        "conformer",
        "architecture: conformer, transformer, cnn, or a family of pretrained encoders (see "
        "estimator_asr.encode): whisper, hubert, wav2vec2",
    )
    encoder_layers: int = setting(6, "number of blocks in the encoders conformer and transformer", minimum=1)
    encoder_units: int = setting(256, "width of the encoder and decoder", positive=True)
    encoder_inner_units: int = setting(
        512, "hidden width of the feed-forward modules in the encoder and decoder", positive=True
    )
    attention_heads: int = constant(4)
    conv_kernel_size: int = constant(15)  # width of the Conformer's convolution, in subsampled frames; odd
    subsampling_channels: int = constant(32)  # only for the encoders conformer and transformer
    chunk_frames: int = setting(
        0,
        "encoders conformer and transformer: frames per chunk of a streaming model, 16 to 64 (32 frames "
        "last 320 ms); during training, chunk sizes are sampled from that range; 0 disables streaming",
        minimum=0,
    )
    acoustic_dropout: float = _fraction(0.1, "dropout rate of the encoder and decoder")
    decoder_layers: int = setting(
        1, "number of blocks in the attention decoder; 0 means that there is no decoder, only CTC", minimum=0
    )
    ctc_weight: float = setting(
        0.7,
        "weight of the CTC loss, above 0; the attention decoder's loss has the weight 1 - ctc_weight",
        positive=True,
        maximum=1,
        training_only=True,
    )
    local_ctc_weight: float = setting(
        0.0,
        "encoders conformer and transformer: weight of a second CTC loss, computed on the inputs of the "
        "first block, which depend only on nearby frames (the other CTC loss has weight 1 - "
        "local_ctc_weight); it makes the model emit each token within its syllable; 0.3 is enough",
        minimum=0,
        maximum=0.9,
    )
    # Fraction of the target probability that is spread evenly over all tokens.
    label_smoothing: float = constant(0.1, "it is always 0.1 with --softmax=full and has no effect otherwise")
    softmax: str = setting(
        FULL,
        "loss of the attention decoder in training: cross-entropy over all tokens (full) or over "
        "--num_sampled random tokens (sampled), or noise-contrastive estimation with --num_sampled random "
        "tokens (nce); use sampled or nce only for vocabularies with thousands of tokens",
        choices=(FULL, "sampled", "nce"),
        training_only=True,
    )
    num_sampled: int = setting(
        256, "--softmax=sampled or nce: number of random tokens per step", positive=True, training_only=True
    )

    trainable_blocks: int = setting(
        0, "pretrained encoders: number of upper encoder blocks that are also trained", minimum=0
    )
    log_mel: bool = setting(
        True, "pretrained encoders: also read the log-mel frames of the data, which carry the speaker's voice"
    )
    # The pretrained encoder (from the data or --warm_start_from), and the numbers of the blocks to read.
    pretrained: Optional[pretrained_encoder.Applied] = None
    # If True, features above a recording's bandwidth are filled (see models/feature_norm.py); has no flag.
    fill_bands: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.encoder_units % self.attention_heads:
            raise errors.UserError(
                f"train: --encoder_units is {self.encoder_units}, expected a multiple of "
                f"{self.attention_heads}, the number of attention heads"
            )
        shortest, longest = CHUNK_FRAMES
        if self.chunk_frames and self.chunk_frames not in range(shortest, longest + 1, CHUNK_STEP):
            raise errors.UserError(
                f"--chunk_frames is {self.chunk_frames}, expected a multiple of {CHUNK_STEP} from {shortest} "
                f"to {longest}; use 32, or leave the flag out"
            )
        if self.softmax != FULL and not self.decoder_layers:
            raise errors.UserError(
                f"train: --softmax={self.softmax} is for the attention decoder, but --decoder_layers is 0; "
                "leave one of them out."
            )


@dataclasses.dataclass(frozen=True)
class DecodeConfig(config_flags.Checked):
    """Settings for decoding: the search (decoding/search), and the weights of models that rank hypotheses.

    The score of a hypothesis is its log probability, plus token_bonus for each token, plus the weighted log
    probabilities from other models: the n-gram model (ngram_weight), the attention decoder
    (attention_weight), the language model (language_weight) and Whisper's decoder (whisper_weight).
    """

    decoding: str = setting("beam", "search for the best tokens or characters: beam or greedy")
    beam_width: int = setting(
        10,
        "number of prefixes kept per frame (language model: sentences kept per syllable), and number of "
        "hypotheses returned",
        minimum=1,
    )
    candidates: int = setting(
        12, "number of most probable tokens (or characters) by which a prefix is extended", minimum=1
    )
    skipped_blank: float = setting(
        0.99,
        "blank probability above which the search skips a frame; 1 means that no frame is skipped",
        positive=True,
        maximum=1,
    )
    ngram_weight: float = setting(0.0, "weight of the n-gram model", minimum=0)
    token_bonus: float = setting(0.0, "constant added to the score for each token")
    attention_weight: float = setting(0.0, "weight of the attention decoder in ranking hypotheses", minimum=0)
    language_weight: float = setting(0.0, "weight of the language model in ranking hypotheses", minimum=0)
    whisper_weight: float = setting(
        0.0,
        "weight of Whisper's decoder in ranking transcripts; if above 0, the decoder also proposes "
        "transcripts",
        minimum=0,
    )
    whisper_language_weight: float = setting(
        0.0, "weight of the language model if Whisper's decoder also ranks transcripts", minimum=0
    )
    # Platt (1999): confidence = sigmoid(confidence_scale x logit(probability) + confidence_offset).
    confidence_scale: float = setting(1.0, "confidence calibration: factor for the log odds", positive=True)
    confidence_offset: float = setting(0.0, "confidence calibration: constant added to the log odds")
    pause_weight: float = setting(0.0, "increase in a mark's log odds per second of silence", minimum=0)
    pause_offset: float = setting(0.0, "seconds of silence that leave a mark's log odds unchanged", minimum=0)


@dataclasses.dataclass(frozen=True)
class LanguageConfig(config_flags.Checked):
    """Settings for the language model (tokens to characters): a Transformer that reads tokens and n-grams."""

    language_layers: int = setting(4, "number of blocks in the language model", minimum=1)
    language_units: int = setting(256, "width of the language model, an even number", positive=True)
    language_inner_units: int = setting(
        1024, "hidden width of the language model's feed-forward modules", positive=True
    )
    language_heads: int = constant(4)  # attention heads
    # A prime number of rows spreads the hashes most evenly; this one is 2^19 - 1.
    ngram_rows: int = setting(
        524287, "number of rows in the table of hashed token n-grams; 0 disables n-grams", minimum=0
    )
    ngram_units: int = setting(64, "width of the n-gram table", positive=True)
    ngram_dropout: float = _fraction(
        0.2, "fraction of n-grams dropped in training, because unseen text contains new n-grams"
    )
    language_dropout: float = _fraction(0.1, "dropout rate of the language model")
    token_noise: float = _fraction(0.0, "fraction of tokens replaced by random ones in training")

    def __post_init__(self):
        super().__post_init__()
        if self.language_units % self.language_heads or self.language_units % 2:
            raise errors.UserError(
                f"train: --language_units is {self.language_units}, expected an even number and a "
                f"multiple of {self.language_heads}, the number of attention heads"
            )


@dataclasses.dataclass(frozen=True)
class PunctuationConfig(config_flags.Checked):
    """Shape of the punctuation model, chosen by --size; with 6,000 characters, base has 7.7 M weights."""

    layers: int = 3
    units: int = 128
    inner_units: int = 512
    heads: int = 4
    ngram_rows: int = 262139  # number of rows in the table of hashed character n-grams; a prime
    ngram_units: int = 24
    ngram_scale: float = 16.0  # factor for the n-gram embedding
    ngram_dropout: float = 0.5
    dropout: float = 0.2
    unknown_rate: float = 0.03  # fraction of characters that training replaces with <unk>


@dataclasses.dataclass(frozen=True)
class InputConfig(config_flags.Checked):
    """Settings for the input: batching, shuffling, caching and SpecAugment."""

    batch_frames: int = setting(
        16000, "acoustic model: frames per batch, padding included, over all replicas", positive=True
    )
    batch_tokens: int = setting(
        4000,
        "language model: tokens per batch, and punctuation model: characters per batch, padding included, "
        "over all replicas",
        positive=True,
    )
    num_buckets: int = setting(
        12,
        "number of length buckets; all utterances in a batch are from one bucket, so more buckets mean less "
        "padding",
        positive=True,
    )
    shuffle_records: int = setting(2048, "size of the shuffle buffer, in records", positive=True)
    shard_cache_gb: float = setting(
        20.0,
        "maximum size in GB of the local cache for s3:// and gs:// data, which all training runs share",
        positive=True,
    )
    spec_augment: bool = setting(True, "SpecAugment: mask time and frequency bands in acoustic training")
    # Two masks of each kind, as in policy LD of Park et al. 2019, but narrower because the corpora are small.
    time_masks: int = constant(2)  # masks per utterance
    time_mask_frames: int = constant(40)  # maximum width of a time mask
    time_mask_fraction: float = constant(0.2)  # maximum fraction of an utterance that time masks cover
    frequency_masks: int = constant(2)  # masks per utterance
    frequency_mask_bins: int = constant(15)  # maximum width of a frequency mask


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(config_flags.Checked):
    """All settings of a training run; each field is a section of config.json."""

    acoustic: AcousticConfig = AcousticConfig()
    language: LanguageConfig = LanguageConfig()
    punctuation: PunctuationConfig = PunctuationConfig()
    optimizer: training_config.OptimizerConfig = training_config.OptimizerConfig()
    input: InputConfig = InputConfig()
    train: training_config.TrainConfig = training_config.TrainConfig()
    stopping: training_config.StoppingConfig = training_config.StoppingConfig()
    watch: training_config.WatchConfig = training_config.WatchConfig()
    display: training_config.DisplayConfig = training_config.DisplayConfig()
