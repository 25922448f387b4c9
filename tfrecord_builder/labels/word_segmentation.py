"""Word segmentation of Mandarin by jieba (rjieba: jieba in Rust).

cut("我买老展览")    -> 我 买 老 展览
split("小老虎")      -> 小 老虎
"""

from __future__ import annotations

import functools


def cut(hanzi: str) -> list[str]:
    """Returns the words of a text without punctuation."""
    import rjieba  # slow to import

    return rjieba.cut(hanzi)


@functools.lru_cache(maxsize=1 << 16)
def split(word: str) -> tuple[str, ...]:
    """Returns the shorter words that a word consists of, with the hanzi between them; or the word alone."""
    import rjieba

    spans = [(start, end) for _, start, end in rjieba.tokenize(word, "search") if end - start < len(word)]
    taken: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: (span[0] - span[1], -span[0])):  # longest first
        if all(end <= first or last <= start for first, last in taken):
            taken.append((start, end))
    ends = sorted({0, len(word)}.union(*taken))
    return tuple(word[start:end] for start, end in zip(ends, ends[1:]))
