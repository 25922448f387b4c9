"""The benchmark of engines builds the same data on a cluster and in processes of this machine."""

from __future__ import annotations

import clusters
import pytest

from benchmarks import engines
from tfrecord_builder import errors


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_runner_has_a_line_and_a_bar(tmp_path, capsys, monkeypatch):
    for name, value in clusters.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with clusters.start("ray", tmp_path) as cluster:
        cluster.start_worker()
        cluster.start_worker()
        config = engines.EnginesConfig(runners=(cluster.runner,), num_utterances=20, rounds=1)
        assert engines.main(config) in (0, 1)  # nobody measures with so few
    title, local, ray, *_, bar = capsys.readouterr().out.splitlines()
    assert title.split("  ")[-1].strip() == "20 utterances, s"
    assert local.split()[0] == "local" and ray.split()[0] == cluster.runner
    assert f"{cluster.runner}, of local" in bar


@pytest.mark.long
def test_the_hash_is_that_of_the_shards(tmp_path):
    engines.write_corpus(str(tmp_path / "one"), 4)
    engines.write_corpus(str(tmp_path / "more"), 5)
    hashes = [engines.build(str(tmp_path / name), ("--num_workers=1",))[1] for name in ("one", "one", "more")]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_build_that_fails_is_told(tmp_path):
    engines.write_corpus(str(tmp_path / "one"), 1)
    with pytest.raises(errors.UserError, match="build --runner=flink failed: error: --runner"):
        engines.build(str(tmp_path / "one"), ("--runner=flink",))
