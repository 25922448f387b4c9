from __future__ import annotations

import programs
import pytest
import tensorflow as tf

from estimator_asr import doctor
from estimator_asr.diagnostics.doctor import findings
from tfrecord_builder import errors


@pytest.fixture(autouse=True)
def _eager_stays_on(monkeypatch):
    """A program turns it off for its process, which other tests share."""
    monkeypatch.setattr(tf.compat.v1, "disable_eager_execution", lambda: None)


def test_every_line_has_its_level_and_a_problem_said_before_is_left_out(capsys):
    broken = findings.problem("DATA: is broken; mend it")
    fine, slow = findings.ok("fine"), findings.warning("slow")
    sections = [("data", [fine, broken]), ("timings", [broken, fine, slow])]
    found = doctor.show(sections)
    assert capsys.readouterr().out.splitlines() == [
        *("", "data", "  ok       fine", "  problem  DATA: is broken; mend it"),
        *("", "timings", "  ok       fine", "  warning  slow"),
    ]
    assert doctor.summarise(found) == "1 warning, 1 problem; begin with: DATA: is broken; mend it"
    assert doctor.summarise([]) == "0 warnings, 0 problems"


def test_what_a_user_can_mend_is_a_problem_after_what_was_found():
    def check():
        yield findings.ok("fine")
        raise errors.UserError("DATA: is broken; mend it")

    assert [tuple(finding) for finding in findings.catch(check)] == [
        ("ok", "fine"),
        ("problem", "DATA: is broken; mend it"),
    ]


def test_a_tensorflow_that_cannot_be_imported_is_a_problem(monkeypatch):
    def fail(*names):
        raise ImportError("libstdc++ is too old")

    monkeypatch.setattr(doctor, "_load", fail)
    sections = {title: list(lines) for title, lines in doctor.examine(doctor.DoctorConfig())}
    assert list(sections) == ["versions", "tensorflow"]
    (finding,) = sections["tensorflow"]
    assert finding.level == "problem" and finding.text.startswith("cannot be imported (libstdc++ is too old)")


def test_the_sections_follow_from_what_is_given():
    def titles(**fields):
        return [title for title, _ in doctor.examine(doctor.DoctorConfig(**fields))]

    assert titles() == ["versions", "devices", "machine", "timings"]
    assert titles(data_dir=("A", "B")) == ["versions", "devices", "machine", "data A", "data B", "timings"]
    both = titles(data_dir=("A",), model_dir="AM")
    assert both == ["versions", "devices", "machine", "data A", "model AM", "data and model", "timings"]


@pytest.mark.parametrize("given", [True, False])
def test_the_program(tiny_export, tmp_path, given):
    data_dir = tiny_export.data_dir if given else str(tmp_path / "nowhere")
    flags = [f"--data_dir={data_dir}", f"--model_dir={tiny_export.acoustic_dir}"]
    run = programs.run("estimator_asr.doctor", *flags)
    assert "Traceback" not in run.stderr
    assert "  ok       checkpoint of step 7 can be read\n" in run.stdout
    assert "GFLOP/s" in run.stdout if given else run.stdout.count("there is no such data directory") == 2
    assert run.returncode == (0 if given else 1), run.stdout
