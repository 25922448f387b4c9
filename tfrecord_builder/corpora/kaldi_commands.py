"""Finds the file that a command in wav.scp decodes, so that the command need not be run. Examples:

a flac -c -d -s /data/a.flac |
b sph2pipe -f wav -p -c 1 /data/b.sph |
c sox /data/c.mp3 -t wav -r 16000 - |
"""

from __future__ import annotations

import os
import re
import shlex
from typing import NamedTuple, Optional

_QUIET = re.compile(r"\s+2>\s*/dev/null")
_SHELL = re.compile(r"[|;&<>$`*?(){}\\\n]")  # characters that join commands or that the shell expands


class _Command(NamedTuple):
    """Patterns for the arguments of a command that only decodes a file; the file name needs no pattern."""

    flags: str = ""  # pattern for options without a value
    options: dict[str, str] = {}  # name of each option -> pattern for its value
    output: str = ""  # pattern for the arguments after the file
    needs: str = ""  # pattern that at least one argument must match


_COMMANDS = {
    "cat": _Command(),
    "flac": _Command(
        "-[cdsf]+|--decode|--stdout|--silent|--totally-silent|--force", needs="-[csf]*d[cdsf]*|--decode"
    ),
    "sph2pipe": _Command("-p", {"-f": "wav|rif|riff", "-c": "[12]"}),
    "sox": _Command(
        r"-[qDGR]|-V[0-6]?|-r\d+k?|-b\d+|-c[12]",
        {
            **{"-t": "wav|wavpcm|flac|mp3|sph|nist|ogg", "-e": "signed.*"},
            **{"-r": r"\d+k?", "-b": r"\d+", "-c": "[12]"},
        },
        output="-",
    ),
    "ffmpeg": _Command(
        "-nostdin|-hide_banner|-nostats|-vn|-y",
        {
            **{"-i": "[^-].*", "-v": ".+", "-loglevel": ".+", "-threads": r"\d+"},
            **{"-f": "wav", "-ar": r"\d+k?", "-ac": "[12]"},
            **dict.fromkeys(("-acodec", "-codec:a", "-c:a"), "pcm_[suf].*"),
        },
        output="-|pipe:1?",
        needs="-i",
    ),
}


def find_file(command: str) -> Optional[tuple[str, Optional[int]]]:
    """Returns the file that a command decodes, and the index of the channel (None for all channels).

    The final | must be removed from the command. Returns None if the command is unknown or does more than
    decode a file.
    """
    path, *words = _split(_QUIET.sub("", command)) or [""]
    name = os.path.basename(path)
    accepted = _COMMANDS.get(name)
    if accepted is None or "" in words:
        return None
    if accepted.needs and not any(re.fullmatch(accepted.needs, word) for word in words):
        return None
    operands, channel, arguments = [], None, iter(words)
    for word in arguments:
        if word in accepted.options:
            value = next(arguments, "")
            if not re.fullmatch(accepted.options[word], value) or (word == "-i" and operands):
                return None
            operands += [value] if word == "-i" else []
            channel = int(value) - 1 if (name, word) == ("sph2pipe", "-c") else channel
        elif not re.fullmatch(accepted.flags, word):
            operands.append(word)
    file, *output = operands or ["-"]
    is_decoding = not file.startswith("-") and re.fullmatch(accepted.output, " ".join(output))
    return (file, channel) if is_decoding else None


def _split(command: str) -> list[str]:
    try:
        return [] if _SHELL.search(command) else shlex.split(command)
    except ValueError:  # a quote is not closed
        return []
