"""The results of the runtime beside those of the export's graph, on models with random weights.

The graphs of the runtime are parts of TensorFlow's: what ONNX Runtime or LiteRT would run is the same.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import runtime_models

from estimator_asr_runtime import model as model_lib
from estimator_asr_runtime import model_json, ngrams, recogniser

pytest.importorskip("tensorflow")
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


def make_ngram(tokens):
    from estimator_asr.decoding.ngrams import back_off, kneser_ney

    rng = np.random.default_rng(1)
    lines = [[tokens[int(each) % len(tokens[1:]) + 1] for each in rng.geometric(0.3, 6)] for _ in range(99)]
    return back_off.compile_model(kneser_ney.estimate(kneser_ney.encode(lines), 2).model, tokens, "random")


def open_model(path, settings, num_text):
    from estimator_asr.experiment import config, model_directory

    model = model_directory.open_model_directory(path)
    ngram = make_ngram(getattr(model, num_text).tokens) if settings["ngram_weight"] else None
    return dataclasses.replace(model, decode=config.DecodeConfig(**settings), ngram=ngram)


def build(acoustic, language, fbank, words):
    """Builds the cascade of the export; returns its outputs, and (inputs, outputs) of the three graphs."""
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.exporting.saved_model import cascade, proposals
    from estimator_asr.models import acoustic as acoustic_lib
    from estimator_asr.models.tasks import tasks

    lengths = tf.constant([len(fbank)])
    given = tf.constant(words) if words else None
    found = proposals.find_hypotheses(acoustic, language, tf.constant(fbank[None]), lengths, given)
    outputs = cascade.write(acoustic, language, *found)
    ids, counts = tf.compat.v1.placeholder(tf.int32, [None, None]), tf.compat.v1.placeholder(tf.int32, [None])
    inputs, task = {"token_ids": ids, "num_tokens": counts}, tasks.for_model(acoustic)
    args = ids[None], counts[None], acoustic.tokens.num_classes, task.token_parts()
    scores = acoustic_lib.score(acoustic.config.acoustic, found[0].encoding, *args)[0]
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
    tf = pytest.importorskip("tensorflow")
    import tiny_models

    from estimator_asr.experiment import checkpoints
    from estimator_asr.exporting.saved_model import cascade
    from estimator_asr.exporting.saved_model import recogniser as of_export

    speech = tiny_models.make_waveform(20000, seed)
    fbank = tiny_models.extract(speech)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        outputs, graphs = build(acoustic, language, fbank, words)
        for model in filter(None, (acoustic, language)):
            cascade.restore(session, model, checkpoints.latest(model.path))
        session.run(tf.compat.v1.tables_initializer())
        expected = of_export.list_results(session.run(outputs))
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
    import tiny_models

    tokens = tiny_models.vocabulary.Vocabulary(TOKENS[token_type])
    tiny_models.make_acoustic_model(str(tmp_path / "am"), tokens, token_type=token_type)
    tiny_models.make_language_model(str(tmp_path / "lm"))
    heard, written, words = CASES.get(case, (SEARCH, SEARCH, ()))
    acoustic = open_model(str(tmp_path / "am"), heard, "tokens")
    language = open_model(str(tmp_path / "lm"), written, "characters") if has_language else None
    assert any(compare(acoustic, language, words, seed)["characters"] for seed in (1, 2, 3))
