"""The runtime returns the same results as the export's graph, for models with random weights.

Parts of TensorFlow's graph replace the graphs that ONNX Runtime or LiteRT would run.
"""

import dataclasses

import pytest
import runtime_models

from estimator_asr_runtime import model as model_lib
from estimator_asr_runtime import model_json, ngrams, recogniser

tf = pytest.importorskip("tensorflow")
acoustic_model = pytest.importorskip("estimator_asr.models.acoustic")
cascade = pytest.importorskip("estimator_asr.exporting.saved_model.cascade")
config = pytest.importorskip("estimator_asr.experiment.config")
format_exports = pytest.importorskip("format_exports")
proposals = pytest.importorskip("estimator_asr.exporting.saved_model.proposals")
saved_model = pytest.importorskip("estimator_asr.exporting.saved_model.recogniser")
tasks = pytest.importorskip("estimator_asr.models.tasks.tasks")
tiny_models = pytest.importorskip("tiny_models")
pytestmark = pytest.mark.long
CHANGES = {"beam_width": 6, "candidates": 5, "language_weight": 0.4, "token_bonus": 0.8}
SEARCH = {**runtime_models.DECODE, **CHANGES}
CASES = {
    "plain": ({**SEARCH, "skipped_blank": 0.5}, SEARCH, ()),
    "ngrams": ({**SEARCH, "ngram_weight": 0.5}, {**SEARCH, "ngram_weight": 0.6}, ()),
    "attention": ({**SEARCH, "attention_weight": 0.3, "confidence_scale": 1.5}, SEARCH, ()),
    "greedy": ({**SEARCH, "decoding": "greedy"}, {**SEARCH, "decoding": "greedy"}, ()),
    "hotwords": (SEARCH, {**SEARCH, "ngram_weight": 0.6}, ("郝妮 hao3 ni3 6", "字 zi4", "吧 ma5 2")),
}


class TensorFlowGraph:
    def __init__(self, session, inputs, outputs):
        self.session, self.inputs, self.outputs = session, inputs, outputs

    def run(self, values):
        feeds = {self.inputs[name]: value for name, value in values.items() if name in self.inputs}
        return self.session.run(self.outputs, feeds)


def set_decoding(model, settings, tokens):
    ngram = format_exports.make_ngram(tokens) if settings["ngram_weight"] else None
    return dataclasses.replace(model, decode=config.DecodeConfig(**settings), ngram=ngram)


def build(acoustic, language, fbank, words):
    """Builds the export's cascade; returns its outputs, and the inputs and outputs of the three graphs."""
    lengths = tf.constant([len(fbank)])
    given = tf.constant(words) if words else None
    found = proposals.find_hypotheses(acoustic, language, tf.constant(fbank[None]), lengths, given)
    outputs = cascade.write(acoustic, language, *found)
    ids, counts = tf.compat.v1.placeholder(tf.int32, [None, None]), tf.compat.v1.placeholder(tf.int32, [None])
    inputs, task = {"token_ids": ids, "num_tokens": counts}, tasks.for_model(acoustic)
    args = ids[None], counts[None], acoustic.tokens.num_classes, task.token_parts()
    scores = acoustic_model.score(acoustic.config.acoustic, found[0].encoding, *args)[0]
    heard = {"log_probs": found[0].log_probs, "encoding": found[0].encoding[0]}
    graphs = [({}, heard), (inputs, {"scores": scores}), None]
    if language:
        with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=True):
            best = tasks.for_model(language).build_best(inputs)
        graphs[2] = inputs, dict(zip(("characters", "log_probs"), best))
    return outputs, graphs


def make_model(acoustic, language, graphs) -> model_lib.Model:
    def make_scorer(model):
        has_scorer = model is not None and model.ngram is not None
        arrays = ngrams.BackOffArrays(**vars(model.ngram)) if has_scorer else None
        return arrays and ngrams.NgramScorer(arrays, model.decode.ngram_weight)

    token_type = acoustic.config.token_type
    fields = [field.name for field in dataclasses.fields(model_json.Decode)]
    decode, text = (
        each and model_json.Decode(**{name: getattr(each.decode, name) for name in fields})
        for each in (acoustic, language)
    )
    values = runtime_models.make_values(token_type=token_type, output_seconds=acoustic.config.output_seconds)
    values = {name: value for name, value in values.items() if name not in runtime_models.OTHERS}
    settings = model_json.ModelJson(**values, acoustic=decode, language=text)
    graphs[1] = graphs[1] if decode.attention_weight else None
    spoken = language.tokens.tokens if language else ()
    return model_lib.Model(
        *("m", settings, *graphs, acoustic.tokens.tokens, language.characters.tokens if language else ()),
        {token: index for index, token in enumerate(spoken)},
        *map(make_scorer, (acoustic, language)),
    )


def compare(acoustic, language, words, seed):
    speech = tiny_models.make_waveform(20000, seed)
    fbank = tiny_models.extract(speech)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        outputs, graphs = build(acoustic, language, fbank, words)
        for model in filter(None, (acoustic, language)):
            cascade.restore(session, model, tf.train.latest_checkpoint(model.path))
        session.run(tf.compat.v1.tables_initializer())
        expected = saved_model.list_results(session.run(outputs))
        parts = [pair and TensorFlowGraph(session, *pair) for pair in graphs]
        found = recogniser.Recogniser(make_model(acoustic, language, parts), words).recognise(speech)
    assert found.pop("status") == "ok"
    assert_near(found, {name: value[0] for name, value in expected.items()})
    return found


def assert_near(found, expected):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_near(found[name], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected):
            assert_near(*pair)
    else:
        assert found == (expected if isinstance(expected, str) else pytest.approx(expected, abs=1e-4))


TOKENS = {
    "syllable": ["<unk>", "hao3", "ma5", "ni3", "shi4", "zi4", "k"],
    "initial_final": ["<unk>", "A", "ao3", "h", "i3", "n", "sh", "-i4"],
}


@pytest.mark.parametrize(
    ("token_type", "case"), [*(("syllable", case) for case in CASES), ("initial_final", "sums")]
)
@pytest.mark.parametrize("has_language", [True, False])
def test_results_equal_those_of_the_export(tmp_path, token_type, case, has_language):
    tokens = tiny_models.vocabulary.Vocabulary(TOKENS[token_type])
    heard, written, words = CASES.get(case, (SEARCH, SEARCH, ()))
    acoustic = tiny_models.make_acoustic_model(str(tmp_path / "am"), tokens, token_type=token_type)
    acoustic, language = set_decoding(acoustic, heard, tokens), None
    if has_language:
        language = tiny_models.make_language_model(str(tmp_path / "lm"))
        language = set_decoding(language, written, language.characters)
    assert any(compare(acoustic, language, words, seed)["characters"] for seed in (1, 2, 3))
