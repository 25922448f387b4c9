"""Programs with a fake TensorFlow, which writes to standard error like the C++ code of the real one."""

import os
import subprocess
import sys

import paths
import pytest

_IMPORT = "from tfrecord_builder.program import lazy_tensorflow as tf"
_PROGRAM = f"{_IMPORT}; tf.load_or_exit(); print(tf.name)"


def run(tmp_path, source, command=_PROGRAM, **environment):
    (tmp_path / "tensorflow.py").write_text(f"{_LOG}\n{source}\n")
    search = os.pathsep.join([str(tmp_path), str(paths.ROOT)])
    clean = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, "-c", command],
        env={**clean, "PYTHONPATH": search, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


_LOG = "import os\ntry:\n    os.write(2, b'from C++\\n')\nexcept OSError:\n    pass"
GOOD = "__version__, name = '2.15.1', 'loaded'"


@pytest.mark.parametrize(
    "command, environment, shown",
    [
        (_PROGRAM, {}, ""),
        (f"{_PROGRAM}; import os; os.write(2, b'later')", {}, "later"),
        (_PROGRAM, {"TF_CPP_MIN_LOG_LEVEL": "0"}, "from C++\n"),
        (f"import os; os.close(2); {_PROGRAM}", {}, ""),
    ],
)
def test_loading_is_quiet_unless_the_user_sets_a_log_level(tmp_path, command, environment, shown):
    done = run(tmp_path, GOOD, command, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "loaded\n", shown)


@pytest.mark.parametrize(
    "source, starts, ends",
    [
        (
            "raise ImportError('libstdc++ is too old')",
            "from C++\nerror: TensorFlow cannot be imported (libstdc++ is too old); ",
            "; run python -m estimator_asr.doctor to find out why\n",
        ),
        ("raise SystemError('broken')", "from C++\nTraceback", "SystemError: broken\n"),
    ],
)
def test_the_output_of_a_failed_import_is_shown(tmp_path, source, starts, ends):
    done = run(tmp_path, source)
    assert done.returncode == 1 and done.stderr.startswith(starts) and done.stderr.endswith(ends)


@pytest.mark.parametrize(
    "command",
    [
        _PROGRAM,
        f"from tfrecord_builder.program import program; {_IMPORT}; program.run(lambda: tf.constant)",
    ],
)
def test_an_untested_release_is_refused_in_one_sentence(tmp_path, command):
    done = run(tmp_path, "__version__ = '2.17.0'", command)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(
        "error: the version of TensorFlow is 2.17.0, expected 2.15 (Python 3.10 to 3.11) or 2.21"
    )


def test_attributes_are_those_of_tensorflow(tmp_path):
    source = f"{GOOD}\nerrors = 'of TensorFlow'"
    assert run(tmp_path, source, f"{_IMPORT}; print(tf.errors)").stdout == "of TensorFlow\n"


SHOWS_KERAS = f"{GOOD}\nprint(os.environ.get('TF_USE_LEGACY_KERAS'))"
_SHOW = f"{_PROGRAM}; import os; print(os.environ.get('TF_USE_LEGACY_KERAS'))"


@pytest.mark.parametrize(
    "environment, shown",
    [({}, ["1", "loaded", "None"]), ({"TF_USE_LEGACY_KERAS": "0"}, ["0", "loaded", "0"])],
)
def test_keras_is_not_imported_while_tensorflow_loads_unless_the_user_chose_one(tmp_path, environment, shown):
    assert run(tmp_path, SHOWS_KERAS, _SHOW, **environment).stdout.split() == shown


SHOWS_COLLECTION = f"{GOOD}\nimport gc; print(gc.isenabled())"


@pytest.mark.parametrize(
    ("before", "counted"), [("enable", "False True True"), ("disable", "False False False")]
)
def test_garbage_collection_is_off_while_tensorflow_loads(tmp_path, before, counted):
    """The loaded modules are frozen afterwards; collection stays off if it was off before."""
    command = (
        f"import gc; gc.{before}(); frozen = gc.get_freeze_count(); {_PROGRAM}; "
        "print(gc.isenabled(), gc.get_freeze_count() > frozen)"
    )
    assert run(tmp_path, SHOWS_COLLECTION, command).stdout.replace("loaded\n", "").split() == counted.split()


@pytest.mark.long
def test_keras_is_imported_on_first_use():
    show = "before = 'keras' in sys.modules; print(before, tf.keras.layers.Dense.__name__)"
    command = [sys.executable, "-c", f"{_IMPORT}; import sys; tf.constant; {show}"]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == "False Dense\n", done.stderr


def test_a_cpu_on_which_the_import_would_abort_is_refused(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("flags : fpu sse sse2 ssse3\n")
    command = f"from tfrecord_builder.program import cpu; cpu.INFO_FILE = {str(info)!r}; {_PROGRAM}"
    done = run(tmp_path, GOOD, command)
    assert (done.returncode, done.stderr) == (
        1,
        "error: TensorFlow needs AVX, which this CPU does not support; use another machine or, in a "
        "virtual machine, make the host's CPU visible (QEMU: -cpu host)\n",
    )
    info.write_text("flags : fpu sse2 avx avx2\n")
    assert run(tmp_path, GOOD, command).returncode == 0
