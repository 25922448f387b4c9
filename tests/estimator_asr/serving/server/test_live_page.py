"""The words that the page, which runs in Node, shows as settled or not while somebody speaks."""

import json
import shutil
import subprocess

import paths
import pytest

PROGRAM = """
const elements = {};
const make = () => ({
  children: [],
  append(...parts) { this.children.push(...parts); parts.forEach((part) => { part.parent = this; }); },
  remove() { this.parent.children.splice(this.parent.children.indexOf(this), 1); },
  replaceChildren() { this.children = []; },
  get lastChild() { return this.children.at(-1); },
});
global.document = { getElementById: (id) => (elements[id] ??= make()), createElement: make };
global.location = { href: "http://localhost:8501/" };
global.WebSocket = class { close() {} };
import(process.argv[1]).then(({ Live }) => {
  const live = new Live(16000, 1.0, "", "", console.error);
  const shown = JSON.parse(process.argv[2]).map((message) => {
    live.socket.onmessage({ data: JSON.stringify({ type: "partial", ...message }) });
    const words = elements["live-text"].children;
    return words.map(({ className, children: [text, age] }) => [className, text, age.textContent]);
  });
  live.close();
  console.log(JSON.stringify(shown));
});
"""


def make_message(first, num_stable, words):
    """Returns a message from an export with marks; the page shows only the value of `written`."""
    characters = [{"character": word, "start": 0.2, "end": 0.4} for word in words]
    written = {"first": first, "num_stable": num_stable, "characters": characters}
    return {"first": 0, "num_stable": 9, "characters": [], "written": written}


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_numbers_are_digits_and_what_is_settled_does_not_change(tmp_path):
    """A character whose mark may still change, and a number that may continue, are not shown as settled."""
    shutil.copy(paths.ROOT / "estimator_asr/serving/server/page/live.js", tmp_path / "live.mjs")
    messages = [
        make_message(0, 1, ["他", "20"]),
        make_message(1, 2, ["23个，", "好"]),
        {"first": 2, "num_stable": 2, "characters": [{"character": "吗", "start": 0.4, "end": 0.6}]},
    ]
    command = ["node", "-e", PROGRAM, str(tmp_path / "live.mjs")]
    found = subprocess.run(
        [*command, json.dumps(messages)], capture_output=True, text=True, check=True, timeout=60
    )
    shown = json.loads(found.stdout)
    assert [[word[:2] for word in words] for words in shown] == [
        [["stable", "他"], ["partial", "20"]],
        [["stable", "他"], ["stable", "23个，"], ["partial", "好"]],
        [["stable", "他"], ["stable", "23个，"], ["partial", "吗"]],
    ]
    assert all(0.4 <= float(age) < 10 for *_, age in shown[-1])
