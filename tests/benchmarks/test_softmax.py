"""The benchmark of the sampled losses trains each side on the same text."""

from __future__ import annotations

import os

import pytest

from benchmarks import softmax

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def keep_cores():
    cores = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cores)


def test_losses_of_all_sides_are_printed(tmp_path, capsys):
    pytest.importorskip("sentencepiece")
    for name in ("train", "dev"):
        rows = ["hanzi\tpinyin", *["你好吗我好你们好\t"] * 20, *["天好\t"] * 20]
        (tmp_path / f"{name}.tsv").write_text("\n".join(rows), encoding="utf-8")
    config = softmax.BenchmarkConfig(
        text_dir=str(tmp_path),
        vocabulary_size=14,
        num_sampled=(3,),
        units=8,
        batch_size=4,
        steps=4,
        evaluations=2,
    )
    text = softmax.read_text(config.text_dir, config.vocabulary_size)
    assert sorted(text.by_frequency) == list(range(text.num_classes))
    assert len(text.train) == len(text.dev) == 40
    assert softmax.main(config) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    rows = [(line[:14].strip(), int(line[14:20])) for line in lines]
    assert rows == [(side, step) for step in (2, 4) for side in ("full", "sampled 3", "nce 3")]
    assert float(lines[3].split()[2]) < float(lines[0].split()[2])  # the loss falls
