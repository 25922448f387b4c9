"""The benchmark of input methods, with functions in the place of Debian's libraries."""

from __future__ import annotations

import subprocess
import sys

import paths
import pytest

from benchmarks.input_methods import __main__ as input_methods
from benchmarks.input_methods import peers as input_methods_peers
from tfrecord_builder import errors


@pytest.fixture
def write(tmp_path):
    def write_file(*lines):
        path = tmp_path / "dev.tsv"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    return write_file


def make_method(hanzi, *patterns):
    packages = {f"package{number}": str(pattern) for number, pattern in enumerate(patterns)}
    return input_methods_peers.InputMethod(packages, lambda files, directory: lambda syllables: hanzi)


def test_lines_are_hanzi_and_syllables(write):
    path = write("hanzi\tpinyin", "你好\tni3 hao3", "绿\tlv4")
    assert input_methods.read(path) == [("你好", ["ni3", "hao3"]), ("绿", ["lv4"])]


def test_every_hanzi_has_a_syllable(write):
    path = write("hanzi\tpinyin", "你好。\tni3 hao3")
    message = "dev.tsv: line 2: has 3 characters and 2 syllables, expected a syllable for each character; fix"
    with pytest.raises(errors.UserError, match=message):
        input_methods.read(path)


def test_a_file_has_lines(write):
    with pytest.raises(
        errors.UserError, match="dev.tsv: has 0 lines below its first one, expected sentences"
    ):
        input_methods.read(write("hanzi\tpinyin"))


def test_a_file_is_given():
    with pytest.raises(errors.UserError, match="no file is given, expected DEV.tsv...; pass at least one"):
        input_methods.main([])


def test_table_has_rate_and_errors_of_the_installed(write, tmp_path, monkeypatch, capsys):
    methods = {"one": make_method("你号", tmp_path), "other": make_method("", tmp_path / "missing")}
    monkeypatch.setattr(input_methods_peers, "INPUT_METHODS", methods)
    path = write("hanzi\tpinyin", "你好\tni3 hao3", "你\tni3")
    assert input_methods.main([path]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        f"{path}: 2 lines, 3 hanzi",
        "  one              66.67 %       2 errors",  # 好 is 号, and 号 is inserted
    ]
    assert printed.err.splitlines()[0] == (
        "other: package0 of Debian is not installed; run apt-get install package0."
    )


def test_exit_code_is_1_if_none_is_installed(write, tmp_path, monkeypatch):
    method = make_method("", tmp_path / "missing")
    monkeypatch.setattr(input_methods_peers, "INPUT_METHODS", {"one": method})
    assert input_methods.main([write("hanzi\tpinyin", "你\tni3")]) == 1


def test_all_missing_packages_are_named(tmp_path):
    method = make_method("", tmp_path / "a*", tmp_path, tmp_path / "b")
    with pytest.raises(
        errors.UserError, match="^package0, package2 of Debian .* install package0 package2.$"
    ):
        method.find_files()


def test_a_syllable_without_letters_is_not_entered():
    entered = []
    line = input_methods.Line("你𪸩绿", ["ni3", "𪸩5", "lü4"])
    assert input_methods.count_errors(lambda syllables: entered.extend(syllables) or "你绿", [line]) == 1
    assert entered == ["ni3", "lü4"]


@pytest.mark.parametrize(
    ("syllable", "spelled", "toneless"),
    [
        ("lv4", "lv4", "lv"),
        ("lü4", "lv4", "lv"),
        ("lu:4", "lv4", "lv"),
        ("lue4", "lve4", "lve"),
        ("nüe4", "nve4", "nve"),
        ("lun2", "lun2", "lun"),
        ("xue2", "xue2", "xue"),
        ("de5", "de5", "de"),
    ],
)
def test_spelling(syllable, spelled, toneless):
    assert input_methods_peers.spell(syllable) == spelled
    assert input_methods_peers.remove_tone(spelled) == toneless


@pytest.mark.parametrize("separated", ["xi an", "fan gan", "e ren", "na nai"])
def test_separators_stand_where_syllables_could_be_others(separated):
    assert input_methods_peers.join(separated.split()) == separated.replace(" ", "'")


@pytest.mark.parametrize("separated", ["ni hao", "fan gun", "gu niang", "ran", "hao ma"])
def test_other_syllables_are_joined(separated):
    assert input_methods_peers.join(separated.split()) == separated.replace(" ", "")


def test_libgooglepinyin_spells_lue():
    entered = []
    input_methods_peers.convert_in_parts(["lve4", "nv3"], lambda letters: entered.append(letters) or "略女")
    assert entered == ["luenv"]


def test_long_lines_are_entered_in_parts_that_overlap():
    """The proposal for a part is its number, so that the sentence shows which part each hanzi is from."""
    letters = "bidijiliminipiqitixi" * 2 + "bidijili"  # 24 syllables; 19 are 38 letters
    entered = []

    def propose(part):
        entered.append(part)
        return str(len(entered)) * (len(part) // 2)

    syllables = [f"{letters[i : i + 2]}1" for i in range(0, len(letters), 2)]
    assert input_methods_peers.convert_in_parts(syllables, propose) == 15 * "1" + 9 * "2"
    assert entered == [letters[:38], letters[22:]]


def test_a_missing_hanzi_is_a_space():
    assert input_methods_peers.convert_in_parts(["ni3", "hao3"], lambda letters: "你") == "你 "


def test_help_teaches():
    command = [sys.executable, "-m", "benchmarks.input_methods", "--help"]
    said = subprocess.run(command, cwd=str(paths.ROOT), capture_output=True, text=True).stdout
    for words in ("apt-get install libpinyin15", "python -m benchmarks.input_methods wiki/dev.tsv"):
        assert words in said
