"""A build that is killed at any moment and started again produces the bytes of an undisturbed build."""

import os
import random
import shutil

import built_data
import killed_builds
import pytest
import small_corpora

NUM_KILLS = int(os.environ.get("NUM_KILLS", "5"))
FINISHED_BEFORE = 3  # exit code if the killed build had finished, so that the next build is refused


@pytest.fixture(scope="module")
def corpus_dir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("corpus")
    small_corpora.make_manifest_corpus(directory, 30, 4)
    os.remove(directory / "audio" / "u03.wav")  # so that one utterance is rejected
    return str(directory)


@pytest.fixture(scope="module")
def builds(corpus_dir):
    running = killed_builds.Builds(corpus_dir)
    yield running
    running.close()


@pytest.mark.long
def test_a_build_killed_at_random_moments_has_the_same_bytes(builds, tmp_path):
    code, seconds = builds.run(str(tmp_path / "straight"))
    assert code == 0
    straight = built_data.contents(tmp_path / "straight")
    assert len(straight) > 20 and ".build" not in straight
    moments, kills, output_dir = random.Random(0), 0, tmp_path / "killed"
    while kills < NUM_KILLS:
        code, _ = builds.run(str(output_dir), kill_after=moments.uniform(0, 1.1 * seconds))
        kills += code == -9
        assert code in (0, -9, FINISHED_BEFORE)
        if code != -9:
            assert built_data.contents(output_dir) == straight
            shutil.rmtree(output_dir)
    assert builds.run(str(output_dir))[0] in (0, FINISHED_BEFORE)
    assert built_data.contents(output_dir) == straight
