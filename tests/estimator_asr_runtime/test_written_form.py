"""The written form of numbers: the table in docs/written-form.tsv, and random text."""

import json
import re
import time
import timeit

import node
import pytest
import written_texts

from estimator_asr_runtime import errors, written_form

Piece = written_form.Piece
TABLE = written_texts.read_table()
# Phrases that earlier rules got wrong, and similar ones: spoken and written forms alternate.
PHRASES = """
周五十二点 周五12点 周五十点半开会 周五10点半开会 星期二十一点 星期二11点 周二十八号 周二18号
周六百分之八十 周六80% 第一百分之五 第一5% 周五三点开会 周五3点开会 周二两点半 周二2点半
每周五十小时 每周50小时 周五八点零五分 周五8点05分 周二二月三号 周二2月3号 一周五十个 一周50个
三千一个月 3000一个月 两百一晚 200一晚 两千一台 2000一台 八百一平米 800一平米
三百一次 300一次 五毛六一度电 5毛6一度电 两毛五一度 2毛5一度 三块五一斤 3块5一斤
三千一小时 3000一小时 两块一斤 两块一斤 三千一 3100 三百一十五个 315个 一百零一个 101个
三胜一负一平 三胜一负一平 两胜一负三平 两胜一负三平 五胜三负两平 五胜三负两平 净负三球 净负三球
减负三十项 减负30项 不负十年 不负10年 三减负二 三减-2
便宜一点五块 便宜一点五块 贵一点三十块 贵一点30块 大一点五岁 大一点5岁 长一点三十厘米 长一点30厘米
晚一点二十分钟到 晚一点20分钟到 差一点五分钟 差一点5分钟 高一点五厘米 高1.5厘米 大一点五倍 大1.5倍
误差一点五毫米 误差1.5毫米 最大一点五毫米 最大1.5毫米 有一点二米 有1.2米 今早一点二十 今早1点20
昨晚一点二十分 昨晚1点20分 校长一点三十分到 校长1点30分到 相差一点五个百分点 相差1.5个百分点
另外一点十分重要 另外一点十分重要 他说的每一点十分清楚 他说的每一点十分清楚
两点十分重要的建议 两点十分重要的建议 两点十分开会 2点10分开会 下午两点十分 下午2点10分
一点一滴 一点一滴 从一点一滴做起 从一点一滴做起 两点一线 两点一线 版本一点一点二 版本1.1.2
报三千零五十一点二五点 报3051.25点 涨二十五点三点 涨25.3点
一百三十块零六毛 130块零6毛 三块零五分 3块零5分 一百块零五毛钱 100块零5毛钱
app一打开 app一打开 wifi一会儿 wifi一会儿 ceo一听 ceo一听 vip一来 vip一来 ktv一晚上 ktv一晚上
f一赛车 F1赛车 维生素c一天一片 维生素C一天一片 app十分好用 app十分好用
十万零五千 105000 一百万零五千 1005000 一百万零八千六百 1008600 一千万零五千 1000万零5000
尾号一二三四 尾号1234 密码一二三四 密码1234 验证码一二三 验证码123 房间一二一 房间121
一百千瓦 100千瓦 一百二十千米每小时 120千米每小时 三百八十千伏 380千伏 三千米 3000米
下午三点一刻 下午3点一刻 十月一放假 十月一放假 五月五 五月五 五月五个人 5月五个人
三到五点 3到5点 三到五点半 3到5点半 windows十一 windows11 iphone十一 iphone11 十一比九 11比9
一百十五 115 三千零五十 3050 一百万零五 1000005 九百九十九万九千九百九十九 9999999
一千万零五百 1000万零500 一亿二千三百四十五万六千七百八十九 1亿2345万6789 二十三亿零五 23亿零5
五十一定 50一定
""".split()
UNCHANGED = """
三十一二个 一百五六十 四至五千元 晚上一点都没睡 少给一点零钱 这一世纪性的问题 思想统一到这里 有好几十个
十一全家去 神舟十五号
""".split()
CASES = dict(zip(PHRASES[::2], PHRASES[1::2])) | dict(zip(UNCHANGED, UNCHANGED))
CASES["六比四六比三"] = "6比4 6比3"
NODE_PROGRAM = """
import { readFileSync } from "fs";
import { WrittenForm } from "./written_form.js";
const form = new WrittenForm(JSON.parse(readFileSync(process.argv[2])));
const write = (text) => [form.rewrite(text).map((each) => [each.written, each.start, each.end]),
  form.settledLength(text), form.write(text)];
console.log(JSON.stringify(JSON.parse(readFileSync("texts.json")).map(write)));
"""


@pytest.fixture(scope="module")
def form():
    return written_form.load()


def test_table(form):
    assert len(TABLE) >= 300
    assert {phrase: form.write(phrase) for phrase in TABLE} == TABLE


def test_phrases(form):
    assert len(CASES) == len(PHRASES) // 2 + len(UNCHANGED) + 1  # no phrase occurs twice
    assert {phrase: form.write(phrase) for phrase in CASES} == CASES


def test_text_that_is_already_written_in_digits_does_not_change(form):
    for text in TABLE.values():
        assert form.write(text) == text


def test_pieces_name_the_characters_they_come_from(form):
    assert form.rewrite("增长百分之十二点五，下午三点半见") == [
        Piece("增长", 0, 2),
        Piece("12.5%", 2, 9),
        Piece("，下午", 9, 12),
        Piece("3", 12, 13),
        Piece("点半见", 13, 16),
    ]
    assert form.rewrite("a 三二零") == [Piece("A", 0, 1), Piece("", 1, 2), Piece("320", 2, 5)]
    assert form.rewrite("") == []


def test_pieces_cover_the_text(form):
    for text in written_texts.make_texts(seed=1, count=500):
        pieces = form.rewrite(text)
        assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
        assert pieces[-1].end == len(text)
        assert "".join(piece.written for piece in pieces) == form.write(text)


@pytest.mark.parametrize("mark", "，。？！、；：")
def test_no_number_crosses_a_mark(form, mark):
    assert form.write(f"三百{mark}二十") == f"300{mark}20"
    assert form.write(f"电话一三八{mark}零零一三") == f"电话138{mark}0013"


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("今天天气", 4),
        ("二零二六年", 0),  # 年 may be followed by 级
        ("他等了二十", 3),  # 二十 may become 二十一 or 二十多
        ("他等了二十分钟，", 8),
        ("电话一三八零零", 2),
        ("hello world", 11),
        ("hello w", 6),  # w may be a letter on its own, such as a unit
        ("看 c n n", 2),
        ("i am a boy and we go", 20),
    ],
)
def test_settled_length(form, text, settled):
    assert form.settled_length(text) == settled


def test_settled_text_does_not_change(form):
    latin_texts = written_texts.make_latin_texts(seed=5, count=250)
    for text in [*written_texts.make_texts(seed=2, count=250), *latin_texts]:
        final, previous = form.write(text), 0
        for length in range(len(text) + 1):
            prefix = text[:length]
            settled = form.settled_length(prefix)
            pieces = [piece for piece in form.rewrite(prefix) if piece.end <= settled]
            assert final.startswith(form.write(prefix[:settled])), (text, prefix, settled)
            assert final.startswith("".join(piece.written for piece in pieces)), (text, prefix, settled)
            assert previous <= settled <= length, (text, prefix)
            previous = settled


def test_rules_start_with_the_listed_characters(form):
    """Only characters in "starts" are tried, so no rule may match anywhere else."""
    with open(written_form.PATH, encoding="utf-8") as file:
        start = re.compile(json.load(file)["starts"])
    for text in written_texts.make_texts(seed=3, count=300):
        for position in range(len(text)):
            if not start.match(text, position):
                assert form._apply(text, position) == (position + 1, []), (text, position)


def test_settled_text_of_sentences_is_close_to_the_end(form):
    sentences = list(TABLE)[-18:]
    lags = [
        length - form.settled_length(text[:length])
        for text in sentences
        for length in range(1, len(text) + 1)
    ]
    assert sum(lags) / len(lags) < 3


@pytest.mark.parametrize("part", "一 零 一十 一点 一到 一百 a_ a一 三点五 百分之 几百 一块 第一 一个".split())
def test_time_is_linear(form, part):
    part = part.replace("_", " ")
    for end in ("", "天" * 10):  # if other text follows, all numbers are settled
        seconds = [_measure(form, part * (size // len(part)) + end) for size in (2_000, 16_000)]
        assert seconds[1] < 8 * 4 * max(seconds[0], 0.005)


def _measure(form, text: str) -> float:
    def work():
        form.rewrite(text)
        form.settled_length(text)

    # timeit turns off garbage collection, which takes a second if other tests have built graphs.
    return min(timeit.repeat(work, timer=time.thread_time, number=1, repeat=2))


def test_a_long_string_of_digits(form):
    start = time.process_time()
    assert form.write("一" * 100_000) == "1" * 100_000
    assert form.settled_length("一" * 100_000) == 0
    assert time.process_time() - start < 2


def test_speed(form):
    """Text in which every other word is a number takes at most a second per 20,000 characters."""
    text = "，".join(TABLE)
    seconds = min(_measure(form, text) for _ in range(3)) / 2  # _measure scans the text twice
    assert len(text) / seconds > 20_000


def test_javascript_gives_the_same_pieces(form, tmp_path):
    random_texts = written_texts.make_texts(seed=4, count=500)
    texts = [*TABLE, *CASES, *random_texts, *written_texts.make_latin_texts(seed=6, count=200)]
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    results = node.run(tmp_path, NODE_PROGRAM, ["shared/written_form.js"], written_form.PATH)
    for text, result in zip(texts, results, strict=True):
        pieces = [list(piece) for piece in form.rewrite(text)]
        assert result == [pieces, form.settled_length(text), form.write(text)], text


def test_rules_of_another_release(tmp_path):
    path = tmp_path / "written_form.json"
    path.write_text('{"layout": 2}', encoding="utf-8")
    with pytest.raises(errors.UserError, match="was written by another release; export the model again"):
        written_form.load(str(path))
    path.write_text("[", encoding="utf-8")
    with pytest.raises(errors.UserError, match=r"cannot be read \(.*\); export the model again"):
        written_form.load(str(path))
    with pytest.raises(errors.UserError, match="cannot be read"):
        written_form.load(str(tmp_path / "missing.json"))
