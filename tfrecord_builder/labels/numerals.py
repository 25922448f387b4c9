"""Writes the numbers of a transcript in hanzi, as they are read in Mandarin (docs/numbers.md).

The grammar is WeTextProcessing's; the rules here come before it and rewrite what it reads otherwise than
people do. What a number means is not always written: whether the hyphen of 歼-20 is a minus, for instance.
"""

from __future__ import annotations

import functools
import re
import unicodedata

_DIGITS = str.maketrans("0123456789.", "零一二三四五六七八九点", "·")
_TELEPHONE_DIGITS = str.maketrans("0123456789", "零幺二三四五六七八九", "- ")
_SAID = dict(
    pair.split(":")
    for pair in """
    V:伏 Hz:赫兹 kHz:千赫兹 W:瓦 kW:千瓦 mL:毫升 dB:分贝 mAh:毫安时 ¥:元 $:美元 €:欧元 £:英镑
    <:小于 >:大于 ≈:约等于 ±:正负 √:根号 *:乘 ×:乘 ÷:除以
    """.split()
)
_CODES = "尾数|电话|手机|号码|邮编|邮政编码|验证码|密码|房间号?|卡号|账号|工号|学号"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
# A number whose sign, point or unit normalisation would drop, written and read.
_LOSS = r"{0}年?[.:/~+*×÷=^·—–-]{0}|(?<![0-9A-Za-z])[-+]{0}|[¥$€£<>≈±√≤≥=×÷*#] ?{0}|{0} ?[%‰°℃¥$€£#+/′″]"
_SIGN, _LEFT = (
    re.compile(_LOSS.format(f"[{each}]")) for each in ("0-9", "零一二三四五六七八九十百千万亿两幺")
)
# A minus or a part of a name, unless a unit follows; a hyphen that only separates; amounts side by side.
_HYPHEN = re.compile(
    r"(?![年月日]|(?<=[0-9])[点时分])[\u4e00-\u9fff]-[0-9]+(?!\.?[0-9]| ?[%℃°度])"
    r"|[0-9]-[\u4e00-\u9fff]|[0-9A-Za-z][¥$€£][0-9]"
)
# A score, a difference, 24/7 or a day, if the first number is not less than the second.
_PAIR = re.compile(r"(?<![0-9A-Za-z./:-])([0-9]+)[/-]([0-9]+)(?![0-9./:=-])")


@functools.lru_cache(maxsize=1)
def read(transcript: str) -> str:
    """Returns the transcript in NFKC with every number in hanzi."""
    text = _fold(transcript)
    if not re.search("[0-9]", text):
        return text
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _grammar().normalize(text)


def is_unclear(transcript: str, numbers: str) -> bool:
    """Returns whether labels may lack something of a number; `numbers` is that of LabelConfig."""
    text = _fold(transcript)
    if numbers == "keep" or not re.search("[0-9]", text):
        return bool(_SIGN.search(text))
    is_falling = any(int(first) >= int(second) for first, second in _PAIR.findall(text))
    return is_falling or bool(_HYPHEN.search(text) or _LEFT.search(read(transcript)))


def _fold(transcript: str) -> str:
    """Returns NFKC, in which 2½ is 2又1/2 and 2³ is 2^3."""
    text = re.sub("(?<=[0-9])(?=[¼-¾⅐-⅞])", "又", transcript)
    text = re.sub("(?<=[0-9A-Za-ln-z])(?=[²³¹⁰⁴-⁹])", "^", text)
    return re.sub("[・•]", "·", unicodedata.normalize("NFKC", text).replace("\u2044", "/"))


@functools.lru_cache(maxsize=1)
def _grammar():
    import wetext  # slow to import

    return wetext.Normalizer(lang="zh", operator="tn", enable_0_to_9=True)


def _say(match: re.Match) -> str:
    return _SAID[match[1]]


def _spell(match: re.Match) -> str:
    return match[0].translate(_DIGITS)


def _spell_code(match: re.Match) -> str:
    return match[0].translate(_TELEPHONE_DIGITS)


def _read_each(match: re.Match) -> str:
    """Reads each integer by itself, as before 号: 2 is 二, and 110 no telephone number."""
    text = re.sub("[~-]", "到", match[0])
    return re.sub("[0-9]+", lambda number: _grammar().normalize(f"{number[0]}号")[:-1], text)


def _read_decimal(match: re.Match) -> str:
    return "十" + match[0][1:].removeprefix("0").translate(_DIGITS)


def _name(match: re.Match) -> str:
    """Letters and a number, as G20 and C919: short numbers are read, long ones spelled."""
    letters, number = match.groups()
    return letters + (number.translate(_DIGITS) if len(number) > 2 else _grammar().normalize(number))


_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=[0-9%年月日])[—–](?=[0-9])", "~"),
        (r"(?<![0-9,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])", lambda match: match[0].replace(",", "")),
        (r"(?<=[0-9]),(?=[0-9])", "、"),
        (rf"(?:US)?([¥$€£]) ?({_NUMBER}[百千万亿]*)", lambda match: match[2] + _SAID[match[1]]),
        (rf"({_NUMBER}[百千万亿]*) ?([¥$€£])(?! ?[0-9])", lambda match: match[1] + _SAID[match[2]]),
        (r"([<>≈±√])(?= ?[0-9])", _say),
        (r"(?<=[0-9A-Za-z])\^([0-9]+)", r"的\1次方"),
        (r"(?<![0-9])(1[0-9]{2})[ -]([0-9]{4})[ -]([0-9]{4})(?![0-9])", r"\1\2\3"),
        (r"\+86[ -]?(?=1[0-9]{10})", "八六"),
        (r"(?<![0-9])0[0-9]{2,3}[- ][0-9]{3,4}[- ]?[0-9]{2,4}(?![0-9])", _spell_code),
        (r"(?<![0-9-])[0-9]+(?:-[0-9]{3,}){2,}(?![0-9])", _spell_code),
        (rf"(?:{_CODES})[是为: ]*[0-9]{{3,}}(?![0-9-])", _spell_code),
        (r"(?<![0-9.])[0-9]{3,4}(?=房间|室)", _spell_code),
        (r"(?<=[A-Za-z])-(?=[0-9.]+(?![0-9.%℃°]))", ""),
        (r"(?<![0-9A-Za-z])([A-Za-z]+)([0-9]+)(?![0-9.])", _name),
        (r"(?<=第)[0-9]+(?:[、和到至~-][0-9]+)*(?![0-9.])", _read_each),
        (r"(?<![0-9.:])0(?=[1-9][月日时点])", ""),
        (r"(?<=[0-9][点时分])-(?=[0-9])", "到"),
        (r"(?<![0-9.])(?:1[0-9]|20)[0-9]{2}(?=[至到](?:1[0-9]|20)[0-9]{2}年(?!前))", _spell),
        (r"(?<![0-9.-])([0-9]{1,2})-(?=[0-9]{1,3}年)", r"\1到"),
        (r"(?<![0-9.])[3-9][0-9]00(?=年)", _read_each),  # no calendar year
        (rf"({_NUMBER})%?[~-]({_NUMBER}%)", r"\1%到\2"),
        (r"((?:比分|比例|以)[^0-9,。;!?]{0,3}[0-9]+):(?=[0-9])", r"\1比"),
        (r"(比分[^0-9,。;!?]{0,3}[0-9]+)-(?=[0-9])", r"\1比"),
        (rf"(?<![0-9.-])({_NUMBER})-(?={_NUMBER}(?:[^0-9A-Za-z.=/年月:-]|$))", r"\1到"),
        (r"(?<![0-9./])([0-9]+)/([0-9]+)(?![0-9./])", r"\2分之\1"),
        (r"[0-9]+分之[0-9]+(?![0-9.])", _read_each),
        (r"(?<=[元米里升克次吨件])/(?=[\u4e00-\u9fff])", "每"),
        (r"(?<=月)2(?=日)", "二"),
        (rf"({_NUMBER})‰", r"千分之\1"),
        (r"(?<=:[0-9]{2})[~-](?=[0-9]{1,2}:)", "到"),
        (r"(?<![0-9:])0?([0-9]{1,2}):00:0?([1-9]|[1-5][0-9])(?![0-9:.])", r"\1点零分\2秒"),
        (r"(?<![0-9:.])0?([0-9]{1,2}):0?(0|[0-9]{2}):0?([0-9]{1,2}\.[0-9]+)(?![0-9:.])", r"\1点\2分\3秒"),
        (r"(?<![0-9:.])0?([0-9]{1,2}):(?=[0-9]{2}\.)0?([0-9]+\.[0-9]+)(?![0-9:.])", r"\1分\2秒"),
        (r"(?<![0-9:])0?([0-9]{1,2}):00(?![0-9:])", r"\1点"),
        (r"(?<![0-9:])00?:([0-5][0-9])(?![0-9:])", r"零点\1分"),
        (r"(?<![0-9:])0?2:(?=[0-5][0-9](?![0-9:]))|(?<![0-9.])0?2点(?=[0-9]{2}|0分|[^0-9]|$)", "两点"),
        (r"(?<![0-9.+-])1[0-2]\.[0-9]{1,2}(?![0-9.]| ?[A-Za-z%℃°])", _read_decimal),
        (r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]+){2}(?![0-9.])", _spell),
        (r"(?<![0-9])[0-9]{1,2}·[0-9]{1,2}(?![0-9])", _spell),
        (r"(?<![0-9.,:/-])0[0-9]+(?![0-9.:/-])", _spell),
        (r"(?<![0-9.])(?!1[3-9][0-9]{9}(?![0-9]))[0-9]{8,}(?![0-9.]|[元万亿人年个米])", _spell),
        (r"(?<=[0-9])米[0-9]{2}(?![0-9])", _spell),
        (r"(?<=[0-9.][0-9])g(?![A-Za-z])", "克"),  # 5g is 5G
        (r"(?<=[0-9]) ?(k?Hz|k?W|V|mL|dB|mAh)(?![A-Za-z])", _say),
        (r"(?<=[0-9]) ?([*×÷]) ?(?=[0-9])", _say),
    )
)
