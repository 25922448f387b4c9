from __future__ import annotations

import new_models
import numpy as np
import tiny_models

from estimator_asr.checkpointing.pretrained import token_rows


def copy(initial, new, source, old, axis=0):
    names = (token_rows.Names(axis, tuple(each)) for each in (new, old))
    new_names, old_names = names
    values, copied, count = token_rows.copy(np.float32(initial), new_names, np.float32(source), old_names)
    return values.tolist(), copied.tolist(), count


def test_rows_are_matched_by_name_and_counted():
    values, copied, count = copy([[7, 7], [8, 8], [9, 9]], "xba", [[1, 2], [3, 4], [5, 6]], "abc")
    assert values == [[7, 7], [3, 4], [1, 2]] and copied == [1, 2]
    assert count == token_rows.Count(copied=2, new=1, dropped=1)


def test_columns_are_copied_along_their_axis():
    assert copy([[7, 8, 9]], "xba", [[1, 2]], "ab", axis=1)[0] == [[7, 2, 1]]


def test_the_first_row_of_a_duplicate_name_counts():
    values, _, count = copy([0, 0], "ab", [1, 2, 3], "baa")
    assert values == [2, 1] and count == token_rows.Count(2, 0, 1)


def test_without_common_names_nothing_is_copied():
    assert copy([4, 5], "ab", [1], "c") == ([4, 5], [], token_rows.Count(0, 2, 1))


def test_the_blank_is_the_last_class():
    names = token_rows.class_names(("<unk>", "a"))
    assert set(names) == {
        f"acoustic/{head}/{part}" for head in ("ctc", "decoder") for part in ("bias", "class_vectors")
    }
    assert names["acoustic/ctc/bias"].axis == 1 and names["acoustic/ctc/class_vectors"].axis == 0
    assert names["acoustic/decoder/bias"].names == ("<unk>", "a", token_rows.BLANK)


def test_reading_biases_belong_to_pairs_in_the_order_of_the_mask(tmp_path):
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
