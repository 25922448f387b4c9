from __future__ import annotations

import gzip
import os

import pytest
import small_ngrams

from estimator_asr.ngrams import arpa_reader, arpa_writer


def test_what_was_read_is_written_again(tmp_path):
    made = arpa_reader.read(small_ngrams.write(tmp_path))
    arpa_writer.write(made, str(tmp_path / "again.arpa"))
    assert (tmp_path / "again.arpa").read_text() == small_ngrams.ARPA
    arpa_writer.write(made, str(tmp_path / "again.arpa.gz"))
    compressed = (tmp_path / "again.arpa.gz").read_bytes()
    assert gzip.decompress(compressed).decode() == small_ngrams.ARPA
    arpa_writer.write(made, str(tmp_path / "other.arpa.gz"))
    assert (tmp_path / "other.arpa.gz").read_bytes() == compressed


def test_a_failed_write_leaves_the_older_file(tmp_path):
    made = arpa_reader.read(small_ngrams.write(tmp_path))
    with pytest.raises(IndexError):
        arpa_writer.write(made._replace(words=made.words[:2]), str(tmp_path / "small.arpa"))
    assert os.listdir(tmp_path) == ["small.arpa"]
    assert (tmp_path / "small.arpa").read_text() == small_ngrams.ARPA
