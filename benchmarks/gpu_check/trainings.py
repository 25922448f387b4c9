"""Trainings of the GPU check: their flags, requirements, and tolerances relative to the CPU's losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

_ROUNDED = 0.1  # tolerance of reduced precision
EXACT = {"NVIDIA_TF32_OVERRIDE": "0"}  # GPUs from compute capability 8.0 on round float32 products to TF32
_BFLOAT16_CPUS = frozenset({"avx512_bf16", "amx_bf16"})

# Turns off everything random in a step, because replicas sample different masks.
_FLAGS = """--save_summary_steps=1 --warmup_epochs=0 --nospec_augment --acoustic_dropout=0
--language_dropout=0 --ngram_dropout=0 --token_noise=0""".split()
# One shape of batches, which XLA compiles for half a minute: 24 utterances, for one replica and for two.
_SMALL = """--num_buckets=1 --learning_rate=0.0005 --batch_frames=3800
--batch_tokens=192 --encoder_layers=2 --encoder_units=32 --encoder_inner_units=64
--language_layers=2 --language_units=32 --language_inner_units=64 --ngram_rows=1023
--ngram_units=16""".split()
# An epoch is one batch here, so that the decay of the flag file would end too soon.
_AISHELL1 = """--flagfile=flags/aishell1/acoustic.flags --learning_rate=0.0003 --decay_boundary_epochs=
--decay_factors=1""".split()


class Training(NamedTuple):
    """The flags and requirements of a training."""

    name: str
    flags: tuple[str, ...] = ()
    num_gpus: int = 0
    capability: tuple[int, int] = (0, 0)  # lowest compute capability
    tolerance: float = 1e-3
    environment: dict[str, str] = EXACT
    cpu_flags: frozenset[str] = frozenset()  # the CPU must have at least one of these flags
    parts: int = 1  # number of parts of the GPU, one per replica


class Group(NamedTuple):
    """Trainings of one model; the first is the reference for the others."""

    name: str
    data: str  # directory
    num_steps: int
    flags: Sequence[str]
    trainings: Sequence[Training]
    side_by_side: bool = False  # runs several at the same time, so that their steps take longer


def list_groups(num_parts: int) -> list[Group]:
    """Returns all trainings; one GPU is split into so many parts if that is more than one."""
    split = [Training(f"{num_parts} parts of a GPU", (), 1, parts=num_parts)] * (num_parts > 1)
    trainings = [*TRAININGS, *split]
    return [
        Group("acoustic", "data", 50, ("--model=acoustic", *_SMALL, *_FLAGS), trainings, True),
        Group("language", "data", 50, ("--model=language", *_SMALL, *_FLAGS), trainings, True),
        Group("flags/aishell1", "long_data", 200, (*_AISHELL1, *_FLAGS), LARGE_TRAININGS),
    ]


TRAININGS = (
    Training("CPU"),
    Training("GPU", num_gpus=1),
    Training("GPU, TF32", (), 1, (8, 0), _ROUNDED, {}),
    Training("GPU, XLA", ("--xla",), 1),
    Training("GPU, float16", ("--precision=float16",), 1, (7, 0), _ROUNDED, {}),
    Training("GPU, bfloat16", ("--precision=bfloat16",), 1, (8, 0), _ROUNDED, {}),
    Training("two GPUs", num_gpus=2),
    Training("two GPUs, XLA", ("--xla",), 2),
    Training("two GPUs, float16", ("--precision=float16",), 2, (7, 0), _ROUNDED, {}),
    Training("two CPU replicas", ("--num_cpu_replicas=2",), tolerance=1e-4),
    Training("CPU, bfloat16", ("--precision=bfloat16",), 0, (0, 0), _ROUNDED, {}, _BFLOAT16_CPUS),
)
LARGE_TRAININGS = (
    Training("GPU", (), 1, (0, 0), _ROUNDED, {}),  # uses TF32 if the GPU has it
    Training("GPU, XLA", ("--xla",), 1, (0, 0), _ROUNDED, {}),
)


def find_need(training: Training, capabilities: Sequence[Optional[Sequence[int]]], flags: set[str]) -> str:
    """Returns the requirement of a training that the machine lacks, or "".

    Args:
        training: training to run.
        capabilities: compute capability of each GPU that TensorFlow lists, None where it is unknown.
        flags: the CPU's flags, as in /proc/cpuinfo.
    """
    if len(capabilities) < training.num_gpus:
        return "needs a GPU" if training.num_gpus == 1 else "needs two GPUs"
    if any(tuple(each or (0, 0)) < training.capability for each in capabilities[: training.num_gpus]):
        return "needs compute capability {}.{}".format(*training.capability)
    if training.cpu_flags and not training.cpu_flags & flags:
        return f"needs a CPU with {' or '.join(sorted(training.cpu_flags))}"
    return ""
