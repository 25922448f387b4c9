import pytest
import tensorflow as tf

from estimator_asr import doctor
from estimator_asr.monitoring.diagnostics.doctor import findings, timings
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info


@pytest.fixture(autouse=True)
def _eager_stays_on(monkeypatch):
    """Keeps eager execution on for the other tests in this process."""
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


def test_a_failed_import_of_tensorflow_is_a_problem(monkeypatch):
    def fail(*names):
        raise ImportError("libstdc++ is too old")

    monkeypatch.setattr(doctor, "load_checks", fail)
    sections = {title: list(lines) for title, lines in doctor.examine(doctor.DoctorConfig())}
    assert list(sections) == ["versions", "tensorflow"]
    (finding,) = sections["tensorflow"]
    assert finding.level == "problem"
    assert finding.text.startswith("TensorFlow cannot be imported (libstdc++ is too old)")


@pytest.mark.parametrize(
    "flags, titles",
    [
        ({}, []),
        ({"data_dir": ("A", "B")}, ["data A", "data B"]),
        ({"data_dir": ("A",), "model_dir": "AM"}, ["data A", "model AM", "data and model"]),
    ],
)
def test_the_flags_determine_the_sections(flags, titles):
    found = [title for title, _ in doctor.examine(doctor.DoctorConfig(**flags))]
    assert found == ["versions", "devices", "machine", *titles, "timings"]


@pytest.mark.long
@pytest.mark.parametrize("exists", [True, False])
def test_all_checks_of_data_and_model(tiny_export, tmp_path, exists, capsys, monkeypatch):
    def check_timings(data_dirs, model_dir):
        yield findings.ok(f"{len(dataset_info.load_all(data_dirs))} timed")

    monkeypatch.setattr(timings, "check", check_timings)
    data_dir = tiny_export.data_dir if exists else str(tmp_path / "nowhere")
    config = doctor.DoctorConfig(data_dir=(data_dir,), model_dir=tiny_export.acoustic_dir)
    found = doctor.show(doctor.examine(config))
    printed = capsys.readouterr().out
    assert "  ok       checkpoint of step 7 can be read\n" in printed
    assert "1 timed" in printed if exists else printed.count("data directory does not exist") == 1
    assert any(finding.level == "problem" for finding in found) != exists


@pytest.mark.parametrize(
    "level, code, line",
    [("warning", 0, "1 warning, 0 problems"), ("problem", 1, "0 warnings, 1 problem; fix first: broken")],
)
def test_the_exit_code_is_1_if_there_is_a_problem(monkeypatch, capsys, level, code, line):
    monkeypatch.setattr(doctor, "examine", lambda _: [("data", [findings.Finding(level, "broken")])])
    assert doctor.main(doctor.DoctorConfig()) == code
    assert capsys.readouterr().out.endswith(f"\n{line}\n")
