"""Commands of a wav.scp that only decode a file: which file, so that it is read without running anything.

a flac -c -d -s /data/a.flac |
b sph2pipe -f wav -p -c 1 /data/b.sph |
c sox /data/c.mp3 -t wav -r 16000 - |
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Optional

_QUIET = re.compile(r"\s+2>\s*/dev/null")
_SHELL = re.compile(r"[|;&<>$`*?(){}\\\n]")  # more than one command, or one that the shell changes
_FILE = r"\n(?P<file>[^-\n][^\n]*)"


def _command(name: str, options: str, leading: str = "", file: str = _FILE, output: str = "") -> re.Pattern:
    """Returns the pattern of a command line, one word per line, whose options do not change the sound."""
    before = "|".join(filter(None, (options, leading)))
    return re.compile(rf"{name}(?:\n(?:{before}))*{file}(?:\n(?:{options}))*{output}")


_COMMANDS = (
    re.compile(f"cat{_FILE}"),
    _command(
        r"flac(?=(?:\n[^\n]*)*\n(?:-[csf]*d[cdsf]*|--decode)(?:\n|$))",
        "-[cdsf]+|--decode|--stdout|--silent|--totally-silent|--force",
    ),
    _command("sph2pipe", r"-p|-f\n(?:wav|rif|riff)", leading=r"-c\n(?P<channel>[12])"),
    _command(
        "sox",
        r"-q|-D|-G|-R|-V[0-6]?|-t\n(?:wav|wavpcm|flac|mp3|sph|nist|ogg)"
        r"|-r\n?\d+k?|-b\n?\d+|-c\n?[12]|-e\nsigned[^\n]*",
        output=r"\n-",
    ),
    _command(
        "ffmpeg",
        r"-nostdin|-hide_banner|-nostats|-vn|-y|-v\n[^\n]*|-loglevel\n[^\n]*|-f\nwav|-ar\n\d+k?|-ac\n[12]"
        r"|-threads\n\d+|(?:-acodec|-codec:a|-c:a)\npcm_[suf][^\n]*",
        file=rf"\n-i{_FILE}",
        output=r"\n(?:-|pipe:1?)",
    ),
)


def find_file(command: str) -> Optional[tuple[str, Optional[int]]]:
    """Returns the file that a command (without its last |) decodes, and the channel from 0, or None for all.

    Returns None for a command that does anything else, or that is not known.
    """
    words = _split(_QUIET.sub("", command))
    line = "\n".join([os.path.basename(words[0]), *words[1:]]) if words else ""
    match = next(filter(None, (pattern.fullmatch(line) for pattern in _COMMANDS)), None)
    if match is None:
        return None
    channel = match.groupdict().get("channel")
    return match["file"], int(channel) - 1 if channel else None


def _split(command: str) -> list[str]:
    try:
        return [] if _SHELL.search(command) else shlex.split(command)
    except ValueError:  # a quote without its end
        return []
