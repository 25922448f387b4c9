"""Converts the numbers in a transcript to hanzi, as they are read in Mandarin (docs/numbers.md).

The grammar comes from WeTextProcessing. The rules here run first and rewrite what the grammar would misread.
The text alone does not always show what a number means: the hyphen in 歼-20 could be a minus sign.
"""

from __future__ import annotations

import functools
import re

from tfrecord_builder.labels import normalisation

_DIGITS = str.maketrans("0123456789.", "零一二三四五六七八九点", "·")
_TELEPHONE_DIGITS = str.maketrans("0123456789", "零幺二三四五六七八九", "- ")
_UNIT_WORDS = dict(
    pair.split(":")
    for pair in """
    V:伏 Hz:赫兹 kHz:千赫兹 W:瓦 kW:千瓦 mL:毫升 dB:分贝 mAh:毫安时 ¥:元 $:美元 €:欧元 £:英镑
    """.split()
)
_CODES = "尾数|电话|手机|号码|邮编|邮政编码|验证码|密码|房间号?|卡号|账号|工号|学号"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_SUM = rf"{_NUMBER}[百千万亿]*"
# Matches a number that would lose its sign, point or unit in normalisation.
_LOSS = re.compile(
    r"[0-9]年?[.:/~+*×÷=^·—–'′-][0-9]|(?<![0-9A-Za-z])[-+.][0-9]|[¥$€£<>≈±√≤≥=×÷*#] ?[0-9]"
    r"|[0-9] ?[%‰°℃¥$€£#+/′″]|[A-Za-z]\^[0-9]|[0-9] ?[cdk]m[23]"
)
# Matches text that can be read in several ways: a hyphen that may be a minus sign or part of a name such as
# 歼-20 (unless a unit follows), a hyphen that only separates, or adjacent amounts.
_HYPHEN = re.compile(
    r"(?![年月日]|(?<=[0-9])[点时分])[\u4e00-\u9fff]-[0-9]+(?!\.?[0-9]| ?[%℃°度])"
    r"|[0-9]-[\u4e00-\u9fff]|[-–] +[0-9]|[0-9A-Za-z][¥$€£][0-9]"
)
# _PAIR matches a range or a fraction; if the first number is not smaller than the second, it may be a score,
# a difference, a date or 24/7. _DAY matches a date such as 02/29 or 12-25.
_PAIR = re.compile(r"(?<![0-9A-Za-z./:-])([0-9]+)[/-]([0-9]+)(?![0-9./:=-])")
_DAY = re.compile(
    r"(?<![0-9A-Za-z./:-])(?:1[0-2]|0?[1-9])(?:/(?:1[3-9]|2\d|3[01]|0[1-9])(?![\d./])"
    r"|-(?:[12]?\d|3[01])(?! ?[\w./:=%‰°℃-]))"
)
# _RUN matches text up to a hanzi, a space or a comma; _WHOLE matches a run that the grammar reads completely.
_RUN = re.compile(r"(?:[^\s\u2018-\u201f\u2600-\u9fff\uf900-\U0003ffff!?,:;()\[\]{}]|(?<=\d)[ ,:](?=\d))+")
_EDGES = re.compile(r"^(?:—|\.\.+)+|[.~·—]+$")
_PLAIN = r"(?:0|[1-9][0-9]*(?!\.)|0(?=\.)|[1-9][0-9]{0,7}(?=\.))(?:\.[0-9]+)?"
_AMOUNT = rf"-?{_PLAIN}(?:[%‰]|[cdkm]?m[23]|k?m/[hs]|μm|[A-Za-z]*)"
_TIME = "(?:[01]?[0-9]|2[0-4])(?::[0-5][0-9]){1,2}(?:[AaPp][Mm])?"
_WHOLE = re.compile(
    rf"(?![\d.]+(?:e-|(?:(?<=\d{{4}})s|st|nd|rd|th)$))[^\W\d_]*{_AMOUNT}(?:[~-]{_AMOUNT})?|{_TIME}(?:[~-]{_TIME})?"
    rf"|[1-9](?:_[1-9])+|(?:[1-9]\d?_){{2,}}[1-9]\d?|{_PLAIN}(?::{_PLAIN})+"
    r"|\d{4}([-/.])\d{1,2}\1\d{1,2}|\d+(?:\.\d+){3}"
)
_QUOTED = re.compile(r"(?<![0-9])([\"'])([^\"']*)\1")
# _LEFT matches a sign that remains between two numbers in hanzi.
_READ = "[零一二三四五六七八九十百千万亿两半]"
_LEFT = re.compile(rf"{_READ}[^\w\s、,。;!?()\"'\u2018-\u201f\u3008-\u3011]+{_READ}")


@functools.lru_cache(maxsize=1)
def read(transcript: str) -> str:
    """Returns the transcript in NFKC with every number in hanzi."""
    text = _fold(transcript)
    return _grammar().normalize(_rewrite(text)) if re.search("[0-9]", text) else text


def is_unclear(transcript: str, numbers: str) -> bool:
    """Returns True if labels may lose part of a number; `numbers` is LabelConfig.numbers."""
    text = _fold(transcript)
    if re.search(r"(?![0-9])\d", text):
        return True
    if numbers == "keep" or not re.search("[0-9]", text):
        return bool(_LOSS.search(text))
    is_falling = any(int(first) >= int(second) for first, second in _PAIR.findall(text))
    rewritten = _rewrite(_QUOTED.sub(r"\2", text))
    runs = (_EDGES.sub("", run) for run in _RUN.findall(rewritten) if re.search("[0-9]", run))
    is_whole = all(map(_WHOLE.fullmatch, runs)) and not _LEFT.search(read(transcript))
    return is_falling or not is_whole or bool(_HYPHEN.search(text) or _DAY.search(text))


def _fold(transcript: str) -> str:
    """Returns the transcript in NFKC, with 2½ as 2又1/2 and 2³ as 2^3."""
    text = re.sub(r"(?<=\d)，(?=\d)(?!0\d|\d{3}(?!\d))", "、", transcript)
    text = re.sub("(?<=[0-9０-９])(?=[¼-¾⅐-⅞])", "又", text)
    text = re.sub("(?<=[0-9A-Za-ln-z])(?=[²³¹⁰⁴-⁹⁻])", "^", text)
    text = re.sub("[・•]", "·", normalisation.compose(text).replace("\u2044", "/"))
    return re.sub(r"(?<=[0-9]) +(?=[%‰°\u4e00-\u9fff])|(?<=[\u4e00-\u9fff]) +(?=[0-9])", "", text)


def _rewrite(text: str) -> str:
    """Returns the text for the grammar, after rewriting whatever the grammar would misread."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return normalisation.say_symbols(text)


@functools.lru_cache(maxsize=1)
def _grammar():
    import wetext  # slow to import

    return wetext.Normalizer(lang="zh", operator="tn", enable_0_to_9=True)


def _spell(match: re.Match) -> str:
    return match[0].translate(_DIGITS)


def _join(match: re.Match) -> str:
    """Returns a number such as 1,000 without separators, or in hanzi if digits would look like a code."""
    digits, following = re.sub("[, ']", "", match[0]), match.string[match.end() :]
    if not 4 < len(digits) < 13 or re.match(r"\.[0-9]|[元人米A-Za-z%‰°]", following):
        return digits
    return _grammar().normalize(f"{digits}元")[:-1]


def _spell_code(match: re.Match) -> str:
    return match[0].translate(_TELEPHONE_DIGITS)


def _read_each(match: re.Match) -> str:
    """Reads each integer as if 号 followed: 2 is 二 (not 两), and 110 is not read as a telephone number."""
    text = re.sub("[~-]", "到", match[0])
    return re.sub("[0-9]+", lambda number: _grammar().normalize(f"{number[0]}号")[:-1], text)


def _read_decimal(match: re.Match) -> str:
    return "十" + match[0][1:].removeprefix("0").translate(_DIGITS)


def _name(match: re.Match) -> str:
    """Reads a number after letters digit by digit (N95), or as a whole if it is small or round (F16, G20)."""
    letters, number = match.groups()
    is_spelled = len(number) > 2 or (int(number) > 30 and number[-1] != "0")
    return letters + (number.translate(_DIGITS) if is_spelled else _grammar().normalize(number))


_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?:(?<=[年月日号])(?:[~—–]|-(?=\d+[年月日号]))|(?<=[0-9][点时分])-)(?=[0-9])", "到"),
        (r"(?<=:[0-9]{2})[~—–-](?=[0-9]{1,2}:)", "到"),
        (r"(?:(?<=[0-9%])|(?<=°C))[—–](?=[0-9])", "~"),
        (r"(?<![0-9A-Za-z.\u4e00-\u9fff])\.(?=[0-9]+(?![0-9.]))", "0."),
        (r"(?<![0-9,.'])[1-9][0-9]{0,2}(?:([,'])[0-9]{3})(?:\1[0-9]{3})*(?![,']?[0-9])", _join),
        (r"(?<![\d.'])(?<!\d )[1-9]\d{0,2}(?: \d{3})* (?:000|\d{3}(?=[.元人米]))(?! ?\d)", _join),
        (r"(?<=[0-9]),(?=[0-9])", "_"),  # keeps the pause, because the grammar ignores commas
        (r"(?<=[0-9]) (?=[0-9]+/[0-9])", "又"),
        (r"([0-9]+)°([0-9]+)['′]", r"\1度\2分"),
        (r"([0-9])['′](?=[0-9]{2}(?:[\"″]|['′]{2}))", r"\1分"),
        (r"(?<=分)([0-9]{1,2})(?:[\"″]|['′]{2})", r"\1秒"),
        (
            r"['‘]([0-9]{2})(?=年)|(?<![0-9.])(?:19|20)?(?:[05-9][05]|10)(?=(?:[、/和][0-9]{2})*后(?!来))",
            _spell,
        ),
        (r"(?<![0-9.])2(?=手[车房货烟书店市]|线城|代[产机核]|单元|档|人转|锅头|元[一二12]次)", "二"),
        (r"(?<=月)0?2(?=日)", "二"),
        (r"(?<![0-9.])[0-9]{3,}(?=后)", _read_each),
        (r"(?<![0-9.第])2(?=年(?!级|[0-9]+班))", "两"),
        (r"(?<![0-9A-Za-z\u4e00-\u9fff.)-])-(?=[0-9]+/[0-9])", "负"),
        (rf"([¥$€£]) ?({_NUMBER})[~-]\1? ?(?={_NUMBER})", r"\2到\1"),
        (rf"(?:US)?([¥$€£]) ?({_SUM})(?![0-9.,]*(?:[A-Za-z]|,[0-9]))", lambda m: m[2] + _UNIT_WORDS[m[1]]),
        (rf"({_SUM}) ?([¥$€£])(?! ?[0-9])", lambda m: m[1] + _UNIT_WORDS[m[2]]),
        (r"(?<=[0-9A-Za-z])\^-(?=[0-9])", "^负"),
        (r"(?<=[0-9A-Za-z])\^(负?[0-9]+)", r"的\1次方"),
        (r"(?<![0-9])(1[0-9]{2})[ -]([0-9]{4})[ -]([0-9]{4})(?![0-9])", r"\1\2\3"),
        (r"(?:\+86|\(\+?86\))[ -]?(?=1[0-9]{10})", "八六"),
        (r"(?<![0-9])0[0-9]{2,3}[- ][0-9]{3,4}[- ]?[0-9]{2,4}(?![0-9])", _spell_code),
        (r"(?<![0-9-])[0-9]+(?:-[0-9]{3,}){2,}(?![0-9])", _spell_code),
        (r"(?<![0-9 ])[48]00 [0-9]{3,4} [0-9]{3,4}(?! ?[0-9])", _spell_code),
        (rf"(?:{_CODES})[是为: ]*[0-9]{{3,}}(?![0-9-])", _spell_code),
        (r"(?<![0-9.])[0-9]{3,4}(?=房间|室)", _spell_code),
        (r"(?<![0-9A-Za-z.])([A-Za-z]+)-(?=[0-9.]+(?![0-9.%℃°]))", r"\1"),
        (r"(?<![0-9A-Za-z/])([A-Za-z]+)([0-9]+)(?![0-9.])", _name),
        (r"(?<=第)[0-9]+(?:[、_和到至~-][0-9]+)*(?![0-9.]| [0-9])", _read_each),
        (r"(?<![0-9.:])0(?=[1-9][月日时点])", ""),
        (r"(?<![0-9.])(?:1[0-9]|20)[0-9]{2}(?=[至到](?:1[0-9]|20)[0-9]{2}年(?!前))", _spell),
        (r"(?<![0-9.-])([0-9]{1,2})-(?=[0-9]{1,3}年)", r"\1到"),
        (r"(?<![0-9.])(?:[3-9][0-9]00|[0-9]{5,12})(?=年)", _read_each),  # a number of years
        (rf"({_NUMBER})%?[~-]({_NUMBER}%)", r"\1%到\2"),
        (r"((?:比分|比例|以)[^0-9,。;!?]{0,3}[0-9]+):(?=[0-9])", r"\1比"),
        (r"(比分[^0-9,。;!?]{0,3}[0-9]+)-(?=[0-9])", r"\1比"),
        (rf"(?<![0-9.-])(?!0[0-9])({_NUMBER})-(?!0[0-9])(?={_NUMBER}(?:[^0-9A-Za-z.=/年月:-]|$))", r"\1到"),
        (r"(?<![0-9./])([0-9]+/[0-9]+)[~-](?=[0-9]+/[0-9])", r"\1到"),
        (r"(?<![0-9./])([0-9]+)/([0-9]+)(?![0-9./%‰A-Za-z\"'′″])", r"\2分之\1"),
        (r"[0-9]+分之[0-9]+(?![0-9.])", _read_each),
        (r"(?:(?<=[元米里升克次吨件])|(?<=[0-9][\u4e00-\u9fff]))/(?=[\u4e00-\u9fff])", "每"),
        (rf"({_NUMBER})‰", r"千分之\1"),
        (r"(?<![0-9:])0?([0-9]{1,2}):00:0?([1-9]|[1-5][0-9])(?![0-9:.])", r"\1点零分\2秒"),
        (r"(?<![0-9:.])0?([0-9]{1,2}):0?(0|[0-9]{2}):0?([0-9]{1,2}\.[0-9]+)(?![0-9:.])", r"\1点\2分\3秒"),
        (r"(?<![0-9:.])0?([0-9]{1,2}):(?=[0-9]{2}\.)0?([0-9]+\.[0-9]+)(?![0-9:.])", r"\1分\2秒"),
        (r"(?<=[0-9]:[0-9]{2})分(?!钟)", ""),
        (r"(?<![0-9:])0?(1?[0-9]|2[0-4]):00(?![0-9:]| ?[AaPp][Mm])", r"\1点"),
        (r"(?<![0-9:])00?:([0-5][0-9])(?![0-9:])", r"零点\1分"),
        (r"(?<![0-9:])0?2:(?=[0-5]\d(?![\d:]| ?[AaPp]))|(?<![0-9.])0?2点(?=[0-9]{2}|0分|[^0-9]|$)", "两点"),
        (r"(?<![0-9.+-])1[0-2]\.[0-9]{1,2}(?![0-9.]| ?[A-Za-z%℃°])", _read_decimal),
        (r"(?<![0-9.])(?![0-9]+(?:\.[0-9]{3}){2}(?!\.))[0-9]{1,3}(?:\.[0-9]+){2}(?![0-9.])", _spell),
        (r"(?<![0-9])[0-9]{1,2}·[0-9]{1,2}(?![0-9])", _spell),
        (r"(?<![0-9.,:/-])0[0-9]+(?![0-9.:/-])", _spell),
        (r"(?<![\d.])(?!1[3-9]\d{9}(?!\d))(?:\d{13,}|\d{8,}(?![元万亿人年个米%]|k[gm]))(?![\d.])", _spell),
        (r"(?<=[0-9])米[0-9]{2}(?![0-9])", _spell),
        (r"(?<=[0-9.][0-9])g(?![A-Za-z])", "克"),  # grams; but 5g is 5G
        (r"(?<=[0-9]) ?(k?Hz|k?W|V|mL|dB|mAh)(?![A-Za-z])", lambda m: _UNIT_WORDS[m[1]]),
        (r"(?<=[0-9])(?: ?\* ?| x )(?=[0-9])", "乘"),
    )
)
