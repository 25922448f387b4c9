"""A context-free grammar of everyday Mandarin (weather, orders, the home ...), and its words' readings.

A rule maps an ASCII name to its expansions, which are sampled with equal probability. An expansion consists
of words in hanzi, punctuation marks and names of other rules, separated by spaces. A hanzi with several
readings occurs only in words that determine its reading, such as 银行 and 行李. No two sentences sound the
same, so pinyin always determines the hanzi, and the hanzi determine the marks.

    read("一起")  -> yi1 qi3
    read("不")    -> bu4
    read("？")    -> nothing

The labels are dictionary readings, as in most Mandarin corpora: 一 is yi1, 不 is bu4, and third tones do not
change, whatever follows. (pinyin.PinyinReader, which labels any transcript, keeps third tones too, but some
of pypinyin's phrases include tone sandhi for 一 and 不: 一个 is yi2 ge4, 不要 bu2 yao4.) The speech has tone
sandhi; see EspeakEngine.pronounce in tfrecord_builder/synthesis/espeak.py.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from tfrecord_builder.data import marks
from tfrecord_builder.labels import pinyin

# A line that begins with a space continues the rule above.
_RULES = """
sentence: weather | weather | date | number | order | order | travel | travel | home | home | daily
    | daily
weather: day city sky 。 | city day sky 。 | city day 最高 气温 temperature 度 。
    | city 现在 的 气温 是 零下 nonzero 度 。 | coming daypart 会 下雨 吗 ？ | coming 出门 要 带 雨伞 。
    | city day 刮 nonzero 级 大风 。 | season city 的 天气 怎么样 ？ | daypart 有 雾 ， 路上 要 小心 ！
sky: 有 小雨 | 会 下雪 | 是 晴天 | 多云 | 非常 热 | 比较 冷 | 空气 很 好 | 没有 风
season: 春天 | 夏天 | 秋天 | 冬天
temperature: 十 nonzero | 二十 nonzero | 三十 nonzero | nonzero
date: day 是 month 月 monthday 号 ， 星期 weekday 。 | 会议 在 daypart hour 点 minute 开始 。
    | 请 在 coming daypart hour 点 叫 我 起床 。 | person 的 生日 是 month 月 monthday 号 。
    | person 二 零 digit digit 年 毕业 。 | 校长 星期 weekday daypart 不 在 学校 。
    | coming daypart hour 点 minute ， 我们 见面 。 | 商店 每天 daypart hour 点 关门 。
day: 今天 | 明天 | 后天 | 昨天 | 周末
coming: 今天 | 明天 | 后天 | 周末
daypart: 早上 | 上午 | 中午 | 下午 | 晚上
hour: digit | 十 | 十一 | 十二 | 两
minute: 半 | 十 分 | 二十 分 | 三十 五 分 | 四十 分
month: nonzero | 十 | 十一 | 十二
monthday: nonzero | 十 nonzero | 二十 nonzero | 三十
weekday: 一 | 二 | 三 | 四 | 五 | 六 | 日
number: 电话 号码 是 digit digit digit digit digit digit digit digit 。
    | 房间 号 是 digit digit digit digit 。 | 这 本 书 有 hundreds 页 。 | tens 加 tens 等于 几 ？
    | 一共 是 hundreds 块 钱 。 | 从 city 到 city 有 hundreds 公里 。 | 我们 班 有 tens 个 学生 。
    | 第 nonzero 名 是 person 。 | 这 座 山 有 thousands 米 高 。
digit: 零 | 一 | 二 | 三 | 四 | 五 | 六 | 七 | 八 | 九
nonzero: 一 | 二 | 三 | 四 | 五 | 六 | 七 | 八 | 九
tens: 十 nonzero | nonzero 十 nonzero | nonzero 十
hundreds: nonzero 百 | nonzero 百 nonzero 十 | nonzero 百 零 nonzero | tens
thousands: nonzero 千 | 两 千 nonzero 百 | nonzero 千 nonzero 百
count: 一 | 两 | 三 | 四 | 五 | 六
order: 我 要 count 杯 drink 。 | 请 给 我 count 碗 bowl 。 | 服务员 ， 再 来 count 份 dish 。
    | dish 和 drink 一共 多少 钱 ？ | 这 家 饭店 的 dish 很 便宜 。 | person 喜欢 喝 drink 。
    | 不要 放 辣椒 ， 谢谢 ！ | 我 想 买 count 张 去 city 的 机票 。 | 我 要 count 瓶 水 和 count 本 书 。
    | 我们 先 吃 bowl ， 然后 喝 drink 。 | 我 要 买 dish 、 bowl 和 drink 。
drink: 咖啡 | 绿茶 | 牛奶 | 啤酒 | 可乐 | 苹果汁
bowl: 米饭 | 面条 | 鸡蛋汤 | 牛肉面
dish: 饺子 | 烤鸭 | 豆腐 | 白菜 | 红烧肉
city: 北京 | 上海 | 广州 | 重庆 | 西安 | 南京 | 成都 | 香港 | 杭州 | 长沙
travel: 从 city 到 city 的 火车 几 点 开 ？ | 去 sight 怎么 走 ？ | 请 在 前面 的 路口 向 side 转 。
    | person coming 坐 vehicle 去 city 。 | sight 离 这里 有 tens 公里 。 | 我 的 行李 在 vehicle 上 。
    | 首都 机场 在 哪里 ？ | 附近 有 没有 银行 ？ | 我们 daypart 一起 去 sight 。
    | person 在 city 住 了 count 年 。 | 慢慢地 走 ， 不要 跑 ！
sight: 长城 | 故宫 | 图书馆 | 火车站 | 公园 | 医院 | 电影院
side: 左 | 右
vehicle: 飞机 | 地铁 | 出租车 | 公共汽车 | 船
home: 打开 room 的 device 。 | 关闭 room 的 device 。 | 把 room 的 device 调 亮 一点 。
    | 空调 调 到 二十 nonzero 度 。 | 播放 kind 音乐 。 | 声音 太 大 了 ， 小 一点 ！
    | 提醒 我 coming daypart hour 点 task 。 | duration 以后 ， 提醒 我 task 。 | 今天 有 什么 重要 的 新闻 ？
room: 客厅 | 卧室 | 厨房 | 书房
device: 电灯 | 电视 | 窗户 | 门
kind: 快乐 的 | 安静 的 | 古典 | 中国
task: 吃药 | 睡觉 | 开会 | 打电话 | 去 银行
duration: tens 分钟 | 半 个 小时 | count 个 小时
daily: person 觉得 subject 很 quality 。 | person 还 没有 吃饭 。 | person 去 图书馆 还书 。
    | 我们 都 是 person 的 朋友 。 | person 在 sight 工作 。 | person 正在 task 。
    | 你 知道 sight 在 哪里 吗 ？ | person 会 说 language 吗 ？ | 妈妈 给 我 买 了 count 件 衣服 。
    | 祝 你 生日 快乐 ！ | person 为什么 不 高兴 ？ | 对不起 ， 我 不 会 说 language 。
    | person 会 说 中文 、 英文 和 日语 。
person: 我 | 他 | 老师 | 妈妈 | 爸爸 | 王 先生 | 李 小姐 | 医生 | 弟弟 | 校长
subject: 这 本 书 | 中国 菜 | 那 个 电影 | language | 数学 | 这 件 事
quality: 有意思 | 重要 | 难 | 容易 | 好 | 方便
language: 中文 | 英文 | 法语 | 日语
"""


def _parse_rules() -> dict[str, tuple[str, ...]]:
    """Returns each rule's expansions, keyed by the rule's name."""
    rules = (rule.split(": ") for rule in _RULES.strip().replace("\n ", " ").split("\n"))
    return {name: tuple(re.split(r" *\| ", expansions)) for name, expansions in rules}


RULES = _parse_rules()

# Readings that replace those from pypinyin, for words where pypinyin differs from Xiandai Hanyu Cidian or
# applies tone sandhi, and for single hanzi with several readings.
_READINGS = """
一共 yi1 gong4, 一点 yi1 dian3, 一起 yi1 qi3, 不要 bu4 yao4, 先生 xian1 sheng5, 哪里 na3 li5,
喜欢 xi3 huan5, 多少 duo1 shao5, 妈妈 ma1 ma5, 学生 xue2 sheng5, 慢慢地 man4 man4 de5, 早上 zao3 shang5,
晚上 wan3 shang5, 有意思 you3 yi4 si5, 朋友 peng2 you5, 爸爸 ba4 ba5, 窗户 chuang1 hu5, 衣服 yi1 fu5,
调 tiao2, 谢谢 xie4 xie5, 豆腐 dou4 fu5, 路上 lu4 shang5, 还书 huan2 shu1
"""
READINGS: dict[str, str] = dict(entry.split(maxsplit=1) for entry in _READINGS.strip().split(","))


def sample_sentence(rng: random.Random) -> tuple[str, ...]:
    """Returns the words and marks of a random sentence, such as ("今天", "北京", "有", "小雨", "。")."""
    return tuple(_expand("sentence", rng))


def _expand(symbol: str, rng: random.Random) -> list[str]:
    if symbol not in RULES:
        return [symbol]
    expansion = rng.choice(RULES[symbol]).split()
    return [word for part in expansion for word in _expand(part, rng)]


def read(word: str) -> list[str]:
    """Returns the dictionary reading of a word in toned pinyin, one syllable per hanzi; [] for a mark."""
    if word in marks.MARKS:
        return []
    return READINGS[word].split() if word in READINGS else pinyin.PinyinReader().read(word)


def read_words(words: Sequence[str]) -> list[str]:
    """Returns the dictionary readings of a sentence's words, one syllable per hanzi."""
    return [syllable for word in words for syllable in read(word)]
