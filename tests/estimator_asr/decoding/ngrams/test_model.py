import numpy as np
import small_ngrams

from estimator_asr.decoding.ngrams import arpa, model


def test_ngrams_are_found_in_their_rows(tmp_path):
    index = model.Index(arpa.read(small_ngrams.write(tmp_path)))
    assert index.find(np.array([[4], [0]])).tolist() == [4, 0]
    assert index.find(np.array([[4, 2], [1, 3], [4, 4], [3, 4]])).tolist() == [2, 0, -1, 1]
    assert index.find(np.array([[1, 3, 4], [4, 3, 4], [1, 4, 3]])).tolist() == [0, -1, -1]
    assert index.find(np.zeros([0, 2], np.int64)).tolist() == []


def test_find_duplicate_returns_the_second_of_two_equal_ngrams(tmp_path):
    made = arpa.read(small_ngrams.write(tmp_path))
    assert model.Index(made).find_duplicate(2) == -1
    bigrams = made.orders[1]
    twice = model.Ngrams(*(np.concatenate([column, column[1:2]]) for column in bigrams))
    assert model.Index(made._replace(orders=(made.orders[0], twice))).find_duplicate(2) == 3
