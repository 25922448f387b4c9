"""Diagnoses training problems: NaN recorder, memory probe, label and CTC checks, overfit test."""
