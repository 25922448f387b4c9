import pytest
import tensorflow as tf

from estimator_asr import doctor
from estimator_asr.monitoring.diagnostics.doctor import findings, timings
from tfrecord_builder import errors


@pytest.fixture(autouse=True)
def _eager_stays_on(monkeypatch):
    """Restores eager execution, which the program disables for this process and its other tests."""
    monkeypatch.setattr(tf.compat.v1, "disable_eager_execution", lambda: None)


def test_every_line_has_its_level_and_a_problem_is_printed_once(capsys):
    broken = findings.problem("DATA: is broken; fix it")
    fine, slow = findings.ok("fine"), findings.warning("slow")
    sections = [("data", [fine, broken]), ("timings", [broken, fine, slow])]
    found = doctor.show(sections)
    assert capsys.readouterr().out.splitlines() == [
        *("", "data", "  ok       fine", "  problem  DATA: is broken; fix it"),
        *("", "timings", "  ok       fine", "  warning  slow"),
    ]
    assert doctor.summarise(found) == "1 warning, 1 problem; fix first: DATA: is broken; fix it"
    assert doctor.summarise([]) == "0 warnings, 0 problems"


def test_a_user_error_is_a_problem_after_the_other_findings():
    def check():
        yield findings.ok("fine")
        raise errors.UserError("DATA: is broken; fix it")

    assert [tuple(finding) for finding in findings.catch(check)] == [
        ("ok", "fine"),
        ("problem", "DATA: is broken; fix it"),
    ]


def test_a_tensorflow_that_cannot_be_imported_is_a_problem(monkeypatch):
    def fail(*names):
        raise ImportError("libstdc++ is too old")

    monkeypatch.setattr(doctor, "load_checks", fail)
    sections = {title: list(lines) for title, lines in doctor.examine(doctor.DoctorConfig())}
    assert list(sections) == ["versions", "tensorflow"]
    (finding,) = sections["tensorflow"]
    assert finding.level == "problem"
    assert finding.text.startswith("TensorFlow cannot be imported (libstdc++ is too old)")


def test_the_flags_determine_the_sections():
    def titles(**fields):
        return [title for title, _ in doctor.examine(doctor.DoctorConfig(**fields))]

    assert titles() == ["versions", "devices", "machine", "timings"]
    assert titles(data_dir=("A", "B")) == ["versions", "devices", "machine", "data A", "data B", "timings"]
    both = titles(data_dir=("A",), model_dir="AM")
    assert both == ["versions", "devices", "machine", "data A", "model AM", "data and model", "timings"]


@pytest.mark.long
@pytest.mark.parametrize("given", [True, False])
def test_all_checks_of_data_and_model(tiny_export, tmp_path, given, capsys, monkeypatch):
    monkeypatch.setattr(timings, "check", lambda infos, *_: [findings.ok(f"{len(infos)} timed")])
    data_dir = tiny_export.data_dir if given else str(tmp_path / "nowhere")
    config = doctor.DoctorConfig(data_dir=(data_dir,), model_dir=tiny_export.acoustic_dir)
    found = doctor.show(doctor.examine(config))
    printed = capsys.readouterr().out
    assert "  ok       checkpoint of step 7 can be read\n" in printed
    assert "1 timed" in printed if given else printed.count("data directory does not exist") == 1
    assert any(finding.level == "problem" for finding in found) != given


def test_the_exit_code_says_whether_there_is_a_problem(monkeypatch, capsys):
    for finding, code in ((findings.warning("slow"), 0), (findings.problem("broken"), 1)):
        monkeypatch.setattr(doctor, "examine", lambda config, finding=finding: [("data", [finding])])
        assert doctor.main(doctor.DoctorConfig()) == code
    assert capsys.readouterr().out.endswith("\n0 warnings, 1 problem; fix first: broken\n")
