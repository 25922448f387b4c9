"""JSON is parsed by config_json.parse, because json.loads raises RecursionError for deeply nested text."""

import re

import paths

LOADERS = {
    "tfrecord_builder/program/config_json.py": 1,
    "estimator_asr/serving/server/tensorflow_request.py": 1,  # must not block other threads
    "estimator_asr/serving/server/live_messages.py": 1,
    "estimator_asr/exporting/sample_client.py": 1,  # runs without this package
    "estimator_asr/demo/stages.py": 1,  # files that the demo itself has just written
    "estimator_asr/demo/tables.py": 2,
}


def test_json_is_loaded_by_one_function():
    found = {}
    for package in ("estimator_asr", "tfrecord_builder"):
        for path in sorted((paths.ROOT / package).rglob("*.py")):
            count = len(re.findall(r"\bjson\.loads?\b(?!\(json\.dumps)", path.read_text("utf-8")))
            found[path.relative_to(paths.ROOT).as_posix()] = count
    assert {path: count for path, count in found.items() if count}.items() <= LOADERS.items()
