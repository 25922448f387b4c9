import jinja2
import pytest

from tfrecord_builder.program import pages


def test_values_are_escaped_and_undefined_names_are_errors(tmp_path):
    (tmp_path / "page.html").write_text("<p>{{ text }} {{ number|thousands }}</p>\n")
    template = pages.environment(tmp_path, thousands="{:,}".format).get_template("page.html")
    assert template.render(text="<b>", number=1000) == "<p>&lt;b&gt; 1,000</p>"
    with pytest.raises(jinja2.UndefinedError, match="'text' is undefined"):
        template.render(number=1)
