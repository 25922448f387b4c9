"""A small random Whisper in the published layout, and independent NumPy references of its parts."""

import functools
import json
import os

import numpy as np
import numpy_transformer as layers
import safetensors.numpy

CONFIG = {
    "model_type": "whisper",
    "d_model": 16,
    "encoder_layers": 3,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "num_mel_bins": 80,
    "max_source_positions": 1500,
}
DECODER_CONFIG = {
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 24,
    "max_target_positions": 40,
}
# The tokenizer has tokens for these characters, and for the words 你好 and 你好吗; all others become bytes.
_WHOLE = ("你", "好", "吗", "是", "郝")
_WORDS = ("你好", "你好吗", "不好")
_SPECIAL = ("<|endoftext|>", "<|startoftranscript|>", "<|zh|>", "<|transcribe|>", "<|notimestamps|>")


def make_tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Returns float16 tensors by their official names after "model.encoder."."""
    units, inner, rng = CONFIG["d_model"], CONFIG["encoder_ffn_dim"], np.random.default_rng(seed)

    def draw(*shape, centre=0.0):
        return np.float16(centre + rng.normal(size=shape) * np.prod(shape[1:], initial=1) ** -0.5)

    tensors = {
        "conv1.weight": draw(units, CONFIG["num_mel_bins"], 3),
        "conv1.bias": draw(units),
        "conv2.weight": draw(units, units, 3),
        "conv2.bias": draw(units),
        "embed_positions.weight": np.float16(sinusoids(CONFIG["max_source_positions"], units)),
        "layer_norm.weight": draw(units, centre=1.0),
        "layer_norm.bias": draw(units),
    }
    for number in range(CONFIG["encoder_layers"]):
        prefix = f"layers.{number}"
        for part in ("q", "k", "v", "out"):
            tensors[f"{prefix}.self_attn.{part}_proj.weight"] = draw(units, units)
            if part != "k":
                tensors[f"{prefix}.self_attn.{part}_proj.bias"] = draw(units)
        for norm in ("self_attn_layer_norm", "final_layer_norm"):
            tensors[f"{prefix}.{norm}.weight"] = draw(units, centre=1.0)
            tensors[f"{prefix}.{norm}.bias"] = draw(units)
        tensors[f"{prefix}.fc1.weight"], tensors[f"{prefix}.fc1.bias"] = draw(inner, units), draw(inner)
        tensors[f"{prefix}.fc2.weight"], tensors[f"{prefix}.fc2.bias"] = draw(units, inner), draw(units)
    return tensors


def write(directory, tensors=None, prefix="model.encoder.", decoder=None, **changes) -> str:
    """Writes config.json and model.safetensors; returns the directory."""
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump({**CONFIG, **changes}, file)
    tensors = make_tensors() if tensors is None else tensors
    decoder = decoder or {"embed_tokens.weight": np.zeros([2, 16], np.float16)}
    named = {f"{prefix}{name}": value for name, value in tensors.items()}
    named.update({f"model.decoder.{name}": value for name, value in decoder.items()})
    safetensors.numpy.save_file(named, os.path.join(directory, "model.safetensors"))
    return str(directory)


def make_tokenizer() -> dict:
    """Returns the content of tokenizer.json: tokens for bytes, parts of characters, characters and words."""
    letters = [chr(each) for each in (*range(33, 127), *range(161, 173), *range(174, 256))]
    others = [byte for byte in range(256) if chr(byte) not in letters]
    shown = {**{ord(each): each for each in letters}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}

    def show(text):
        return "".join(shown[byte] for byte in text.encode())

    vocabulary, merges = {shown[byte]: byte for byte in range(256)}, []

    def merge(left, right):
        vocabulary.setdefault(left + right, len(vocabulary))
        merges.append(f"{left} {right}")

    for each in map(show, _WHOLE):
        if each[:2] not in vocabulary:
            merge(each[0], each[1])
        merge(each[:2], each[2])
    for word in _WORDS:
        if show(word[:-1]) in vocabulary:
            merge(show(word[:-1]), show(word[-1]))
    added = [{"content": each, "id": len(vocabulary) + i} for i, each in enumerate(_SPECIAL)]
    return {"model": {"vocab": vocabulary, "merges": merges}, "added_tokens": added}


def make_decoder_tensors(seed: int = 1) -> dict[str, np.ndarray]:
    """Returns float16 tensors by their official names after "model.decoder."."""
    units, inner, rng = CONFIG["d_model"], DECODER_CONFIG["decoder_ffn_dim"], np.random.default_rng(seed)
    tokenizer = make_tokenizer()
    num_tokens = len(tokenizer["model"]["vocab"]) + len(_SPECIAL)
    shapes = {"embed_tokens.weight": (num_tokens, units)}
    shapes["embed_positions.weight"] = (DECODER_CONFIG["max_target_positions"], units)
    for number in range(DECODER_CONFIG["decoder_layers"]):
        prefix = f"layers.{number}"
        for module in ("self_attn", "encoder_attn"):
            shapes |= {f"{prefix}.{module}.{part}_proj.weight": (units, units) for part in "qkv"}
            shapes |= {f"{prefix}.{module}.{part}_proj.bias": (units,) for part in "qv"}
            shapes |= {f"{prefix}.{module}.out_proj.weight": (units, units)}
            shapes |= {f"{prefix}.{module}.out_proj.bias": (units,), f"{prefix}.{module}_layer_norm": None}
        shapes |= {f"{prefix}.fc1.weight": (inner, units), f"{prefix}.fc1.bias": (inner,)}
        shapes |= {f"{prefix}.fc2.weight": (units, inner), f"{prefix}.fc2.bias": (units,)}
        shapes[f"{prefix}.final_layer_norm"] = None
    shapes["layer_norm"] = None
    tensors = {}
    for name, shape in shapes.items():
        if shape is None:
            tensors[f"{name}.weight"] = np.float16(1 + 0.3 * rng.normal(size=units))
            tensors[f"{name}.bias"] = np.float16(0.3 * rng.normal(size=units))
        else:
            tensors[name] = np.float16(rng.normal(size=shape) * np.prod(shape[1:], initial=1) ** -0.5)
    return tensors


def write_whole(directory, **changes) -> str:
    """Writes encoder, decoder and tokenizer.json; returns the directory."""
    tokenizer, decoder = make_tokenizer(), make_decoder_tensors()
    path = write(
        directory,
        decoder=decoder,
        vocab_size=len(decoder["embed_tokens.weight"]),
        **{**DECODER_CONFIG, **changes},
    )
    with open(os.path.join(directory, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    return path


def decode(memory: np.ndarray, token_ids, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """Returns logits after each token, float64 [num_tokens, vocabulary size]; ids as in tokenizer.json."""
    tensors = {name: np.float64(value) for name, value in tensors.items()}
    embedded = tensors["embed_tokens.weight"]
    hidden, heads = embedded[list(token_ids)], DECODER_CONFIG["decoder_attention_heads"]
    hidden = hidden + tensors["embed_positions.weight"][: len(hidden)]
    for number in range(DECODER_CONFIG["decoder_layers"]):
        get = functools.partial(_get, tensors, f"layers.{number}.")
        for module, read in (("self_attn", None), ("encoder_attn", memory)):
            parts = [get(f"{module}.{part}_proj") for part in ("q", "k", "v", "out")]
            normalised = layers.normalise(hidden, *get(f"{module}_layer_norm"))
            hidden = hidden + layers.attend(normalised, heads, *parts, read, causal=read is None)
        normalised = layers.normalise(hidden, *get("final_layer_norm"))
        hidden = hidden + layers.dense(layers.gelu(layers.dense(normalised, *get("fc1"))), *get("fc2"))
    return layers.normalise(hidden, *_get(tensors, "", "layer_norm")) @ embedded.T


def encode(fbank: np.ndarray, tensors: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Returns the outputs of each block, float64 [ceil(num_frames / 2), units]; the last is normalised."""
    tensors = {name: np.float64(value) for name, value in tensors.items()}
    hidden = np.float64(fbank)
    for name, stride in (("conv1", 1), ("conv2", 2)):
        padded = np.pad(hidden, [[1, 1], [0, 0]])
        hidden = layers.convolve(padded, tensors[f"{name}.weight"], stride) + tensors[f"{name}.bias"]
        hidden = layers.gelu(hidden)
    hidden = hidden + tensors["embed_positions.weight"][: len(hidden)]
    outputs = []
    for number in range(CONFIG["encoder_layers"]):
        hidden = _block(hidden, functools.partial(_get, tensors, f"layers.{number}."))
        outputs.append(hidden)
    outputs[-1] = layers.normalise(hidden, *_get(tensors, "", "layer_norm"))
    return outputs


def sinusoids(length: int, units: int) -> np.ndarray:
    rates = 10000.0 ** (-np.arange(units // 2) / (units // 2 - 1))
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _get(tensors, prefix, name):
    return tensors[f"{prefix}{name}.weight"], tensors.get(f"{prefix}{name}.bias", 0.0)  # keys have no bias


def _block(hidden, get):
    parts = [get(f"self_attn.{part}_proj") for part in ("q", "k", "v", "out")]
    normalised = layers.normalise(hidden, *get("self_attn_layer_norm"))
    hidden = hidden + layers.attend(normalised, CONFIG["encoder_attention_heads"], *parts)
    normalised = layers.normalise(hidden, *get("final_layer_norm"))
    return hidden + layers.dense(layers.gelu(layers.dense(normalised, *get("fc1"))), *get("fc2"))
