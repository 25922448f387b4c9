from __future__ import annotations

from estimator_asr.training import exporters


def test_better_is_a_lower_decoded_error_rate_whatever_the_loss():
    is_better = exporters.build_compare_fn("token_error_rate")
    best = {"token_error_rate": 0.2, "loss": 1.0}
    assert is_better(best_eval_result=best, current_eval_result={"token_error_rate": 0.1, "loss": 2.0})
    assert not is_better(best_eval_result=best, current_eval_result={"token_error_rate": 0.2, "loss": 0.5})


def test_the_report_shows_every_figure_once(monkeypatch):
    lines = []
    monkeypatch.setattr(exporters.logging, "info", lambda text, *values: lines.append(text % values))
    result = {"loss": 9.0, "global_step": 12, "token_error_rate": 0.25, "avg_loss": 1.5}
    exporters.Report().export(None, "", "", result, False)
    assert lines == ["dev at step 12: avg_loss 1.5000  token_error_rate 0.2500"]
