"""Runs estimator_asr_runtime.transcribe."""

import runpy

runpy.run_module("estimator_asr_runtime.transcribe", run_name="__main__", alter_sys=True)
