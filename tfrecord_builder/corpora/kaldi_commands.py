"""The commands of a wav.scp that only decode a file: which file, so that it is read without running anything.

a flac -c -d -s /data/a.flac |
b sph2pipe -f wav -p -c 1 /data/b.sph |
c sox /data/c.mp3 -t wav -r 16000 - |
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Mapping
from typing import Optional

_QUIET = re.compile(r"\s+2>\s*/dev/null")
_SHELL = re.compile(r"[|;&<>$`*?(){}\\]")  # more than one command, or one that the shell changes
_RATE, _BITS, _CHANNELS = r"\d+k?", r"\d+", r"[12]"


@dataclasses.dataclass(frozen=True)
class _Program:
    """What does not change the sound: options without a value, options with one, and the last operand."""

    flags: str = ""
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)
    input: str = ""  # the option before the first operand
    output: str = ""
    needed: str = ""  # an option must match it


_PROGRAMS = {
    "cat": _Program(),
    "flac": _Program(
        r"-[cdsf]+|--decode|--stdout|--silent|--totally-silent|--force", needed=r"-[csf]*d[cdsf]*|--decode"
    ),
    "sph2pipe": _Program("-p", {"-f": "wav|rif|riff", "-c": _CHANNELS}),
    "sox": _Program(
        "-q|-D|-G|-R|-V[0-6]?",
        {
            "-t": "wav|wavpcm|flac|mp3|sph|nist|ogg",
            "-r": _RATE,
            "-b": _BITS,
            "-c": _CHANNELS,
            "-e": "signed.*",
        },
        output="-",
    ),
    "ffmpeg": _Program(
        "-nostdin|-hide_banner|-nostats|-vn|-y",
        {
            **dict.fromkeys(("-v", "-loglevel"), ".*"),
            **dict.fromkeys(("-acodec", "-codec:a", "-c:a"), "pcm_[suf].*"),
            **{"-f": "wav", "-ar": _RATE, "-ac": _CHANNELS, "-threads": _BITS},
        },
        input="-i",
        output="-|pipe:1?",
    ),
}


def find_file(command: str) -> Optional[tuple[str, Optional[int]]]:
    """Returns the file that a command (without its last |) decodes, and the channel from 0, or None for all.

    Returns None for a command that does anything else, or that is not known.
    """
    words = _split(_QUIET.sub("", command))
    program = _PROGRAMS.get(os.path.basename(words[0])) if words else None
    options, operands = (program and _parse(program, words[1:])) or ({}, [])
    if not program or not any(re.fullmatch(program.needed, option) for option in (*options, "")):
        return None
    if program.output and not (operands and re.fullmatch(program.output, operands.pop())):
        return None
    if len(operands) != 1 or operands[0] == "-":
        return None
    is_channel = program is _PROGRAMS["sph2pipe"] and "-c" in options
    return operands[0], int(options["-c"]) - 1 if is_channel else None


def _split(command: str) -> list[str]:
    try:
        return [] if _SHELL.search(command) else shlex.split(command)
    except ValueError:  # a quote without its end
        return []


def _parse(program: _Program, words: list[str]) -> Optional[tuple[dict[str, str], list[str]]]:
    """Returns options and operands; None if there is an option that may change the sound."""
    options, operands, rest = {}, [], iter(words)
    for word in rest:
        if word and word == program.input:
            operands.append(next(rest, ""))
            continue
        name, value = (word[:2], word[2:]) if re.fullmatch(r"-[rbc]\d+k?", word) else (word, None)
        if name in program.values:
            options[name] = next(rest, "") if value is None else value
            if not re.fullmatch(program.values[name], options[name]):
                return None
        elif re.fullmatch(program.flags, word):
            options[word] = ""
        elif word.startswith("-") and word != "-":
            return None
        else:
            operands.append(word)
    return options, operands
