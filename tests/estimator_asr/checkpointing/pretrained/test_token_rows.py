from __future__ import annotations

import new_models
import numpy as np
import tiny_models

from estimator_asr.checkpointing.pretrained import token_rows


def test_places_are_paired_by_name_and_counted():
    matched = token_rows.match(("<unk>", "b", "c", "d"), ("<unk>", "a", "c", "b"))
    assert matched.new.tolist() == [0, 1, 2] and matched.old.tolist() == [0, 3, 2]
    assert matched.count == token_rows.Count(copied=3, new=1, dropped=1)


def test_of_a_name_that_the_source_has_twice_the_first_counts():
    matched = token_rows.match(("a", "b"), ("b", "a", "a"))
    assert matched.old.tolist() == [1, 0] and matched.count == token_rows.Count(2, 0, 1)


def test_nothing_in_common_is_nothing_copied():
    matched = token_rows.match(("a", "b"), ("c",))
    assert matched.new.size == 0 and matched.count == token_rows.Count(0, 2, 1)
    np.testing.assert_array_equal(token_rows.place(np.eye(2), np.ones([1, 2]), matched, 0), np.eye(2))


def test_rows_and_columns_move_to_their_new_places():
    matched = token_rows.match(("x", "b", "a"), ("a", "b"))
    rows = token_rows.place(np.float32([[7, 7], [8, 8], [9, 9]]), np.float32([[1, 2], [3, 4]]), matched, 0)
    assert rows.tolist() == [[7, 7], [3, 4], [1, 2]]
    columns = token_rows.place(np.float32([[7, 8, 9]]), np.float32([[1, 2]]), matched, 1)
    assert columns.tolist() == [[7, 2, 1]]


def test_the_blank_is_the_last_class_and_no_token():
    names = token_rows.class_names(("<unk>", "the blank"))
    assert set(names) == {
        f"acoustic/{head}/{part}" for head in ("ctc", "decoder") for part in ("bias", "class_vectors")
    }
    assert names["acoustic/ctc/bias"].axis == 1 and names["acoustic/ctc/class_vectors"].axis == 0
    assert names["acoustic/decoder/bias"].names == ("<unk>", "the blank", token_rows.BLANK)
    assert token_rows.match((token_rows.BLANK,), ("the blank",)).count.copied == 0


def test_readings_are_pairs_in_the_order_of_the_mask(tmp_path):
    model = new_models.make_new_model(str(tmp_path / "lm"), "language")
    names = token_rows.list_names(model)
    characters, pairs = tiny_models.CHARACTERS.tokens, names["language/reading_bias"].names
    assert (
        names["language/tokens"].names == model.tokens.tokens
        and names["language/characters"].names == characters
    )
    assert pairs[: len(characters)] == tuple(("<unk>", character) for character in characters)
    # ai4 has no reading, so only the unknown character may stand for it.
    assert pairs[len(characters) :] == (
        ("ai4", "<unk>"),
        ("hao3", "好"),
        ("hao3", "郝"),
        ("ni3", "你"),
        ("shi4", "是"),
    )
