import matplotlib.font_manager
import matplotlib.image
import numpy as np
import pytest
from fontTools import fontBuilder
from fontTools.pens import ttGlyphPen

from tfrecord_builder.audio import frontend
from tfrecord_builder.building.verification import pictures
from tfrecord_builder.data import schema
from tfrecord_builder.program import fonts

FBANK = np.linspace(-5, 20, 48 * 80).astype(np.float16).reshape(48, 80)
HANZI = "你好"


def _record(**changes):
    fields = dict(utterance_id="u$1", speaker="s", transcript="ni hao", pronunciation="ni3 hao3")
    return schema.Record(**{**fields, **changes}, token_ids=[1, 2], character_ids=[], fbank=FBANK)


@pytest.fixture
def no_font(monkeypatch):
    monkeypatch.setattr(matplotlib.font_manager, "get_font_names", lambda: ["DejaVu Sans"])


@pytest.fixture
def font(tmp_path, monkeypatch):
    """Installs, until the test ends, the only CJK font, which draws HANZI as squares."""
    monkeypatch.setattr(fonts, "_CJK_FAMILIES", ("Squares",))
    pen = ttGlyphPen.TTGlyphPen(None)
    pen.moveTo((100, 0))
    for corner in ((100, 900), (900, 900), (900, 0)):
        pen.lineTo(corner)
    pen.closePath()
    glyphs = {name: pen.glyph() for name in (".notdef", "one")}
    builder = fontBuilder.FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(list(glyphs))
    # matplotlib measures the height of a line with the text "lp".
    builder.setupCharacterMap({ord(character): "one" for character in f"{HANZI}lp"})
    builder.setupGlyf(glyphs)
    builder.setupHorizontalMetrics({name: (1000, 0) for name in glyphs})
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable({"familyName": "Squares", "styleName": "Regular"})
    builder.setupOS2(), builder.setupPost()
    path = str(tmp_path / "squares.ttf")
    builder.save(path)
    known = matplotlib.font_manager.fontManager.ttflist
    matplotlib.font_manager.fontManager.addfont(path)
    yield path
    known[:] = [each for each in known if each.fname != path]


def _image(tmp_path, record, config=None):
    path = str(tmp_path / "a.png")
    omitted = pictures.draw(record, config or frontend.FrontendConfig(), path)
    return omitted, matplotlib.image.imread(path)


def test_without_a_cjk_font_hanzi_are_omitted_and_returned(tmp_path, no_font):
    assert fonts.can_draw("nǐ hǎo") and not fonts.can_draw(HANZI)
    omitted, image = _image(tmp_path, _record(transcript=HANZI, utterance_id=HANZI))
    assert omitted == [HANZI]
    _, without = _image(tmp_path, _record(transcript="", utterance_id=""))
    np.testing.assert_array_equal(image, without)


@pytest.mark.filterwarnings("error")
def test_with_a_cjk_font_hanzi_are_drawn_beside_latin(tmp_path, font):
    omitted, image = _image(tmp_path, _record(transcript=f"{HANZI} hi"))
    assert omitted == []
    assert (image != _image(tmp_path, _record(transcript=f"{HANZI[:1]}  hi"))[1]).any()


def test_the_same_record_gives_the_same_bytes(tmp_path):
    for name in ("a.png", "b.png"):
        pictures.draw(_record(transcript="$x$"), frontend.FrontendConfig(), str(tmp_path / name))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_long_text_makes_the_picture_higher(tmp_path):
    _, short = _image(tmp_path, _record())
    _, long = _image(tmp_path, _record(pronunciation="zhuang4 " * 100))
    assert long.shape[0] > short.shape[0] + 200 and long.shape[1] == short.shape[1]


def test_text_between_dollars_is_not_mathematics(tmp_path):
    _image(tmp_path, _record(utterance_id="$\\frac$", transcript="$\\frac$"))


def test_different_features_make_a_different_picture(tmp_path):
    config = frontend.FrontendConfig(frontend="log_spectrogram")
    _, one = _image(tmp_path, _record(), config)
    record = schema.Record("u$1", "s", "ni hao", "ni3 hao3", [1], [], FBANK[::-1], 0)
    assert (_image(tmp_path, record, config)[1] != one).any()


@pytest.mark.long
def test_a_long_id_and_long_texts_are_cut(tmp_path):
    """matplotlib takes half a minute for a title of 100,000 characters, and refuses 1,000 lines."""
    cut = _record(utterance_id="u" * 90, transcript="x" * 90 * 50, pronunciation="")
    long = _record(utterance_id="u" * 100_000, transcript="x" * 90 * 1000, pronunciation="")
    assert np.array_equal(_image(tmp_path, long)[1], _image(tmp_path, cut)[1])
