"""Writes the numbers of a transcript in hanzi, as they are read in Mandarin (docs/numbers.md).

The grammar is WeTextProcessing's; the rules here come before it and rewrite what it reads otherwise than
people do. What a number means is not always written: whether the hyphen of 歼-20 is a minus, for instance.
"""

from __future__ import annotations

import functools
import re
import unicodedata

_DIGITS = str.maketrans("0123456789", "零一二三四五六七八九")
_TELEPHONE_DIGITS = str.maketrans("0123456789", "零幺二三四五六七八九")
_UNITS = {"V": "伏", "Hz": "赫兹", "kHz": "千赫兹", "W": "瓦", "kW": "千瓦"}
_CODES = "电话|手机|号码|邮编|邮政编码|验证码|密码|房间号?|卡号|账号|工号|学号"
_PERCENT = r"[0-9]+(?:\.[0-9]+)?"
# A digit whose sign, point or unit normalisation would drop.
_SIGN = re.compile(r"[0-9](?:[.:/~+*×÷=-](?=[0-9])|[%‰°℃])|(?<![0-9A-Za-z])[-+¥$€£](?=[0-9])")
# A minus or a part of a name, unless a unit follows.
_HYPHEN = re.compile(r"[\u4e00-\u9fff]-[0-9]+(?![0-9]|\.[0-9]| ?[%℃°度])")


def read(transcript: str) -> str:
    """Returns the transcript in NFKC with every number in hanzi."""
    text = unicodedata.normalize("NFKC", transcript).replace("\u2044", "/")
    if not re.search("[0-9]", text):
        return text
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _grammar().normalize(text)


def is_unclear(transcript: str, numbers: str) -> bool:
    """Returns whether labels may lack something of a number; `numbers` is that of LabelConfig."""
    text = unicodedata.normalize("NFKC", transcript).replace("\u2044", "/")
    return bool((_SIGN if numbers == "keep" else _HYPHEN).search(text))


@functools.lru_cache(maxsize=1)
def _grammar():
    import wetext  # slow to import

    return wetext.Normalizer(lang="zh", operator="tn", enable_0_to_9=True)


def _spell(match: re.Match) -> str:
    return match[0].replace(".", "点").translate(_DIGITS)


def _spell_code(match: re.Match) -> str:
    return match[0].replace("-", "").translate(_TELEPHONE_DIGITS)


def _name(match: re.Match) -> str:
    """Letters and a number, as G20 and C919: short numbers are read, long ones spelled."""
    letters, number = match.groups()
    return letters + (number.translate(_DIGITS) if len(number) > 2 else _grammar().normalize(number))


_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=[0-9%])[—–](?=[0-9])", "~"),
        (r"(?<![0-9,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])", lambda match: match[0].replace(",", "")),
        (r"\+86[ -]?(?=1[0-9]{10})", "八六"),
        (r"(?<![0-9])(1[0-9]{2})[ -]([0-9]{4})[ -]([0-9]{4})(?![0-9])", r"\1\2\3"),
        (r"(?<![0-9])0[0-9]{2,3}-[0-9]{7,8}(?![0-9])", _spell_code),
        (rf"(?:{_CODES})[是为: ]*[0-9]{{3,}}(?![0-9-])", _spell_code),
        (r"(?<![0-9.])[0-9]{3,4}(?=房间|室)", _spell_code),
        (r"(?<![0-9A-Za-z])([A-Za-z]+)-?([0-9]+)(?![0-9.])", _name),
        (r"(?<=第)([0-9]+)-(?=[0-9])", r"\1到"),
        (r"(?<![0-9.-])([0-9]{1,4})-(?=[0-9]{1,4}(?:[^0-9A-Za-z.=/年月:-]|$))", r"\1到"),
        (rf"({_PERCENT})%?[~-]({_PERCENT}%)", r"\1%到\2"),
        (rf"({_PERCENT})‰", r"千分之\1"),
        (r"(?<![0-9:])00?:([0-5][0-9])(?![0-9:])", r"零点\1分"),
        (r"((?:比分|比例|以)[^0-9,。;!?]{0,3}[0-9]+):(?=[0-9])", r"\1比"),
        (r"(?<=(?<![0-9.])[1-9])\.[0-9]{1,2}(?![0-9.]| ?[A-Za-z%℃°])", _spell),
        (r"(?<=(?<![0-9.])1[0-2])\.[0-9]{1,2}(?![0-9.]| ?[A-Za-z%℃°])", _spell),
        (r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]+){2}(?![0-9.])", _spell),
        (r"(?<![0-9.,:/-])0[0-9]+(?![0-9.:/-])", _spell),
        (r"(?<![0-9.])(?!1[3-9][0-9]{9}(?![0-9]))[0-9]{8,}(?![0-9.]|[元万亿人年个米])", _spell),
        (r"(?<=[0-9])米[0-9]{2}(?![0-9])", _spell),
        (r"(?<=[0-9]) ?(k?Hz|k?W|V)(?![A-Za-z])", lambda match: _UNITS[match[1]]),
        (r"(?<=[0-9]) ?[*×] ?(?=[0-9])", "乘"),
        (r"(?<=[0-9]) ?÷ ?(?=[0-9])", "除以"),
    )
)
