import new_models
import numpy as np
import pytest
import tiny_models

from estimator_asr.pretrained import transfer
from tfrecord_builder import errors
from tfrecord_builder.data import syllables

OLD_TOKENS = ("<unk>", "hao3", "ma5", "ni3", "shi4", "tian1")
VECTORS, PARTS = "acoustic/ctc/class_vectors", "acoustic/ctc/part_vectors"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return new_models.make_new_model(str(tmp_path_factory.mktemp("new") / "am"))  # <unk> ai4 hao3 ni3 shi4


def make_source(**values):
    values = {name.replace("__", "/"): np.float32(value) for name, value in values.items()}
    return transfer.WeightSource("AM/model.ckpt-5", values, transfer.class_names(OLD_TOKENS), ("it differs",))


def test_slots_steps_and_update_counts_are_not_weights():
    others = ["global_step", "beta1_power", "language/tokens", "acoustic/norm/num_updates"]
    others += ["acoustic/norm/scale/Adam", "acoustic/norm/scale/Adam_1", "acoustic/a/b/kernel/Momentum"]
    weights = ["acoustic/a/b/kernel", "acoustic/norm/scale"]
    assert transfer.list_weights([*others, *reversed(weights)], "acoustic") == weights


def test_variables_of_equal_shape_are_copied_whole_and_others_are_listed(model):
    initial = {"acoustic/a/x": np.zeros([2, 3]), "acoustic/a/y": np.zeros([2]), "acoustic/a/z": np.zeros([1])}
    source = make_source(acoustic__a__x=np.ones([2, 3]), acoustic__a__y=np.ones([3]), acoustic__old__w=[1])
    values, report = transfer.combine(model, initial, source)
    assert set(values) == {"acoustic/a/x"} and values["acoustic/a/x"].sum() == 6
    assert report.whole == {"acoustic/a/x": 6} and report.new == ["acoustic/a/z"]
    assert report.misfits == {"acoustic/a/y": ([2], [3])} and report.unused == ["acoustic/old/w"]


def test_rows_and_columns_are_copied_by_token(model):
    local = "acoustic/local_ctc/classes"
    shapes = {VECTORS: [6, 2], "acoustic/ctc/bias": [1, 6], f"{local}/kernel": [2, 6], f"{local}/bias": [6]}
    initial = {name: np.full(shape, -1.0) for name, shape in shapes.items()}
    old = np.arange(7.0)  # <unk> hao3 ma5 ni3 shi4 tian1 blank
    source = make_source(
        acoustic__ctc__class_vectors=np.stack([old, old + 10], axis=1),
        acoustic__ctc__bias=old[None],
        acoustic__local_ctc__classes__kernel=np.stack([old, old + 10]),
        acoustic__local_ctc__classes__bias=old,
    )
    values, report = transfer.combine(model, initial, source)
    first, second = [0, -1, 1, 3, 4, 6], [10, -1, 11, 13, 14, 16]  # ai4 keeps its initial value
    assert values["acoustic/ctc/bias"].tolist() == [first] and values[f"{local}/bias"].tolist() == first
    assert values[f"{local}/kernel"].tolist() == values[VECTORS].T.tolist() == [first, second]
    assert set(report.rows.values()) == {transfer.Count(copied=5, new=1, dropped=2)}


def test_rows_of_another_width_do_not_fit(model):
    source = make_source(acoustic__ctc__class_vectors=np.ones([7, 3]))
    values, report = transfer.combine(model, {VECTORS: np.zeros([6, 2])}, source)
    assert not values and report.misfits == {VECTORS: ([6, 2], [7, 3])}


def test_syllable_parts_that_the_source_lacks_are_subtracted(model):
    parts = syllables.part_matrix(model.tokens.tokens)
    normal = np.random.default_rng(0).normal
    initial = {VECTORS: normal(size=[6, 2]), PARTS: normal(size=[parts.shape[1], 2])}
    source = make_source(acoustic__ctc__class_vectors=normal(size=[7, 2]))
    values, _ = transfer.combine(model, initial, source)
    sums = values[VECTORS] + np.pad(parts, [[0, 1], [0, 0]]) @ initial[PARTS]
    places = [0, 2, 3, 4, 5]
    np.testing.assert_allclose(sums[places], source.values[VECTORS][[0, 1, 3, 4, 6]], atol=1e-6)
    np.testing.assert_array_equal(values[VECTORS][1], initial[VECTORS][1])


def test_with_syllable_parts_in_both_rows_are_copied_unchanged(model):
    initial = {VECTORS: np.zeros([6, 2]), PARTS: np.zeros([3, 2])}
    parts = {"acoustic__ctc__part_vectors": np.ones([3, 2])}
    source = make_source(acoustic__ctc__class_vectors=np.ones([7, 2]), **parts)
    values, _ = transfer.combine(model, initial, source)
    assert values[VECTORS][2].tolist() == [1, 1] and values[PARTS].sum() == 6


def report_of(num_whole, num_misfits):
    misfits = {f"acoustic/w{i}": ([2, 4], [2, 3]) for i in range(num_misfits)}
    return transfer.TransferReport({f"acoustic/v{i}": 1 for i in range(num_whole)}, {}, misfits, [], [])


def test_a_source_is_refused_with_both_shapes_if_fewer_than_half_fit():
    transfer.check(report_of(2, 2), "AM", "NEW")
    said = (
        r"AM: only 1 of 6 variables fit the model in NEW \(acoustic/w0 \[2, 4\], but "
        r"\[2, 3\] in the source; acoustic/w1 .*; acoustic/w2 \[2, 4\], but \[2, 3\] in the source\); use "
    )
    with pytest.raises(errors.UserError, match=said):
        transfer.check(report_of(1, 5), "AM", "NEW")
    message = r"AM: only 0 of 0 variables .* \(the models have no variable in common\)"
    with pytest.raises(errors.UserError, match=message):
        transfer.check(report_of(0, 0), "AM", "NEW")


def test_the_table_lists_all_variables():
    whole, rows = {"acoustic/a": 1000, "acoustic/b": 234}, {VECTORS: transfer.Count(5, 1, 2)}
    misfits = {"acoustic/encoder/block_0/x": ([3], [5])}
    new = ["acoustic/encoder/block_1/a/b", "acoustic/encoder/block_1/c", PARTS]
    report = transfer.TransferReport(whole, rows, misfits, new, ["acoustic/x"])
    assert list(transfer.describe(report, make_source())) == [
        "warm start from AM/model.ckpt-5",
        "  copied whole: 2 variables, 1,234 values",
        "  by token                      copied       new   dropped",
        "  acoustic/ctc/class_vectors         5         1         2",
        "  does not fit, so initialised: acoustic/encoder/block_0/x [3], but [5] in the source",
        "  initialised: acoustic/encoder/block_1 (2), acoustic/ctc/part_vectors",
        "  only in the source, not copied: acoustic/x",
        "  it differs",
    ]


@pytest.mark.parametrize(
    "initial, new, source, old, axis, values, rows, count",
    [
        (
            [[7, 7], [8, 8], [9, 9]],
            "xba",
            [[1, 2], [3, 4], [5, 6]],
            "abc",
            0,
            [[7, 7], [3, 4], [1, 2]],
            [1, 2],
            (2, 1, 1),
        ),
        ([[7, 8, 9]], "xba", [[1, 2]], "ab", 1, [[7, 2, 1]], [1, 2], (2, 1, 0)),
        ([0, 0], "ab", [1, 2, 3], "baa", 0, [2, 1], [0, 1], (2, 0, 1)),  # duplicate name: the first row
        ([4, 5], "ab", [1], "c", 0, [4, 5], [], (0, 2, 1)),
    ],
)
def test_rows_are_matched_by_name_and_counted(initial, new, source, old, axis, values, rows, count):
    new, old = (transfer.Names(axis, tuple(names)) for names in (new, old))
    found = transfer.copy_rows(np.float32(initial), new, np.float32(source), old)
    assert (found[0].tolist(), found[1].tolist(), found[2]) == (values, rows, transfer.Count(*count))


def test_the_blank_is_the_last_class():
    names = transfer.class_names(("<unk>", "a"))
    local = {f"acoustic/local_ctc/classes/{part}" for part in ("kernel", "bias")}
    heads = {f"acoustic/{head}/{part}" for head in ("ctc", "decoder") for part in ("bias", "class_vectors")}
    assert set(names) == heads | local
    assert names["acoustic/ctc/bias"].axis == 1 and names["acoustic/ctc/class_vectors"].axis == 0
    assert names["acoustic/decoder/bias"].names == ("<unk>", "a", transfer.BLANK)


def test_reading_biases_belong_to_pairs_in_the_order_of_the_mask(tmp_path):
    model = new_models.make_new_model(str(tmp_path / "lm"), "language")
    names = transfer.list_names(model)
    characters, pairs = tiny_models.CHARACTERS.tokens, names["language/reading_bias"].names
    assert names["language/tokens"].names == model.tokens.tokens
    assert names["language/characters"].names == characters
    assert pairs[: len(characters)] == tuple(("<unk>", character) for character in characters)
    # ai4 is not a reading of any character, so its only pair is with <unk>.
    read = (("hao3", "好"), ("hao3", "郝"), ("ni3", "你"), ("shi4", "是"))
    assert pairs[len(characters) :] == (("ai4", "<unk>"), *read)
