import os
import subprocess
import sys
import textwrap

import paths
import pytest

PROGRAM = """
    import dataclasses, logging as standard_logging
    from absl import logging
    from tfrecord_builder.program import config_flags, program; from tfrecord_builder import errors

    class OpError(Exception):
        pass

    @dataclasses.dataclass(frozen=True)
    class Config(config_flags.Checked):
        depth: int = config_flags.setting(1, "how deep")
        width: int = config_flags.setting(1, "how wide")
        REMOVED = {"height": "use --depth", "dig": "digging is always on"}

    def main(config, words=()):
        if config.depth == 2:
            raise errors.UserError("corpus: depth is 2, expected 1; dig less.")
        if config.depth == 3:
            raise KeyboardInterrupt
        if config.depth == 4:
            raise ZeroDivisionError("a bug")
        if config.depth == 5:
            open("/nowhere/x")
        if config.depth == 6:
            with open("/dev/full", "w") as file:
                file.write("x")
        if config.depth == 11:
            return print(*words)
        if config.depth >= 9:
            OpError.__module__ = "tensorflow.python.framework.errors_impl" if config.depth == 9 else "my"
            raise OpError(FULL_DISK)
        if config.depth == -1:
            logging.warning("depth is %d", -1)
        if config.depth == -2:
            logging.set_verbosity(logging.INFO)
            library = standard_logging.getLogger("another.library")
            logging.info("own line")
            library.info("line of a library")
            library.warning("warning of a library")
        print("words", words, flush=config.depth == 8)
        return 7 if config.depth == 7 else None

    FULL_DISK = (
        "Graph execution error:\\n\\nNode: 'save/SaveV2'\\n"
        "/am/model.ckpt-2_temp/part-00000-of-00001; No space left on device\\n\\t [[node save/SaveV2]]"
    )
    groups = {"How to dig": ["depth"]} if "{has_groups}" == "True" else None
    program.run(main, Config, takes_words="{takes_words}" == "True", groups=groups)
"""


def run(*arguments, takes_words=False, has_groups=False, **options):
    program = textwrap.dedent(PROGRAM).replace("{takes_words}", str(takes_words))
    program = program.replace("{has_groups}", str(has_groups))
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=paths.ROOT, text=True, **{"capture_output": True, **options})
    return done.returncode, done.stdout, done.stderr


FULL = "No space left on device; free some space; finished work is kept"
ADVICE = "write flags as --flag=value, --flag or --noflag"
NOWHERE = "/nowhere/x: No such file or directory; pass a path that can be read and written"


@pytest.mark.parametrize(
    "argument, expected",
    [
        ("--depth=1", (0, "words ()\n", "")),
        ("--depth=7", (7, "words ()\n", "")),
        ("--depth=2", (1, "", "error: corpus: depth is 2, expected 1; dig less.\n")),
        ("--depth=3", (130, "", "interrupted\n")),
        ("--depth=5", (1, "", f"error: {NOWHERE}\n")),
        ("--depth=9", (1, "", f"error: /am/model.ckpt-2_temp/part-00000-of-00001: {FULL}\n")),  # TensorFlow's
        ("--depth=-1", (0, "words ()\n", "depth is -1\n")),  # log lines have no prefix
        ("--depth=-2", (0, "words ()\n", "own line\nwarning of a library\n")),
    ],
)
def test_the_exit_code_and_the_output_of_main(argument, expected):
    assert run(argument) == expected


@pytest.mark.parametrize(
    "argument, said",
    [
        ("--depth=6", FULL),
        ("--depth=10", "Traceback"),  # an OpError that is not TensorFlow's is a bug
        ("--depth=4", "a bug"),
    ],
)
def test_a_bug_prints_a_traceback_and_a_full_disk_does_not(argument, said):
    code, _, stderr = run(argument)
    assert code == 1 and said in stderr and ("Traceback" in stderr) == (argument != "--depth=6")


@pytest.mark.parametrize("written", ["--flagfile={}", "-flagfile={}", "--flagfile {}"])
def test_the_command_line_overrides_a_flag_file_in_any_order(tmp_path, written):
    file = tmp_path / "deep.flags"
    file.write_text("--depth=2\n", encoding="utf-8")
    assert run("--depth=7", *written.format(file).split())[0] == 7


def test_a_flag_file_sets_flags_unless_it_follows_two_dashes(tmp_path):
    file = tmp_path / "deep.flags"
    file.write_text("--depth=2\n", encoding="utf-8")
    assert run(f"--flagfile={file}")[0] == 1
    words = ["--flagfile", str(file)]
    assert run("--depth=1", "--", *words, takes_words=True) == (0, f"words {words}\n", "")


def test_a_closed_pipe_is_not_an_error():
    reader, writer = os.pipe()
    os.close(reader)
    options = {"stdout": writer, "stderr": subprocess.PIPE, "capture_output": False}
    assert run("--depth=8", **options)[::2] == (1, "")
    os.close(writer)


@pytest.mark.parametrize("flag", ["--help", "--helpshort", "-?", "--helpfull"])
def test_help_is_printed_on_standard_output_with_exit_code_0(flag):
    code, stdout, stderr = run(flag)
    assert (code, stderr) == (0, "")
    assert "--depth: how deep" in stdout and "--width: how wide" in stdout


@pytest.mark.parametrize("flag, lists_all", [("--help", False), ("--helpshort", False), ("--helpfull", True)])
def test_help_has_headings_and_leaves_out_what_is_rarely_needed(flag, lists_all):
    code, stdout, _ = run(flag, has_groups=True)
    assert code == 0 and "\nHow to dig:\n  --depth: how deep\n    (default: '1')\n" in stdout
    assert ("\nRarely needed:\n  --width: how wide\n" in stdout) == lists_all


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--dephts=1", "error: Unknown command line flag 'dephts'. Did you mean: depth ?; see --help\n"),
        ("--depth", "error: Missing value for flag --depth; see --help\n"),
        ("--height=3", "error: --height no longer exists; use --depth\n"),
        ("--nodig", "error: --dig no longer exists; digging is always on\n"),
        ("--flagfile", "error: --flagfile with no argument; see --help\n"),
        ("False", f"error: unexpected argument 'False'; {ADVICE}\n"),
    ],
)
def test_a_wrong_flag_is_one_sentence_and_exit_code_1(argument, message):
    assert run(argument) == (1, "", message)


def test_a_missing_flag_file_is_named():
    code, _, stderr = run("--flagfile=nowhere.flags")
    assert code == 1
    assert stderr.startswith("error: Unable to open flagfile:") and "'nowhere.flags'" in stderr


def test_a_program_may_accept_words():
    assert run("a.wav", takes_words=True) == (0, "words ['a.wav']\n", "")


@pytest.mark.parametrize(
    "content, message",
    [
        (b"RIFF\xa4\x00\xff", "--flagfile: the file is not UTF-8 text; see --help"),
        (b"once\n--depth=1\nupon a time\n", f"unexpected argument 'once'; {ADVICE}"),
    ],
)
def test_a_flag_file_with_something_else_is_refused(tmp_path, content, message):
    (tmp_path / "file").write_bytes(content)
    assert run(f"--flagfile={tmp_path}/file") == (1, "", f"error: {message}\n")


@pytest.mark.parametrize(
    "encoding, shown", [("latin-1", "caf\xe9 \\u5408"), ("ascii", "caf\\xe9 \\u5408"), ("utf-8", "café 合")]
)
def test_characters_that_the_terminal_lacks_are_escaped(encoding, shown):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    word = "café 合 \udcff"  # the last one is a byte that is not UTF-8
    code, out, err = run("--depth=11", word, takes_words=True, env=environment, encoding=encoding)
    assert (code, out, err) == (0, f"{shown} \\udcff\n", "")


def test_a_program_runs_with_closed_standard_output():
    options = {"stderr": subprocess.PIPE, "capture_output": False, "preexec_fn": lambda: os.close(1)}
    assert run("--depth=2", **options)[::2] == (1, "error: corpus: depth is 2, expected 1; dig less.\n")
    assert run(**options)[::2] == (0, "")
