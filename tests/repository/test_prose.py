"""Limits the number of comments and docstrings that cannot be understood without the surrounding code.

If this test fails, rewrite the sentence so that it names its subject, instead of only avoiding the pattern.
"""

import ast
import io
import re
import tokenize

import paths
import pytest

PACKAGES = ("estimator_asr", "estimator_asr_runtime", "tfrecord_builder")
# Matches comments without a subject, such as "# of its parent".
DANGLING = re.compile(
    r"#\s*(of|with|without|that|as|for|from|in|to|by|which|those|until|where|unless|than|else|or|and|but|at|on"
    r"|beside|before|after)\b",
    re.IGNORECASE,
)
# Matches docstrings that do not name their subject, such as "Whether more has its turn."
RIDDLE = re.compile(r"(What|Whether|Those|That|Which|How|As|Of)\b")
MAX_FINDINGS = {"dangling": 10, "riddle": 5}


def find_dangling(source: str) -> list[str]:
    """Returns comments that begin with a preposition or conjunction, but not the later lines of a block."""
    lines, findings = ["", *source.splitlines(), ""], []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row = token.start[0]
        in_block = lines[row].lstrip().startswith("#") and lines[row - 1].lstrip().startswith("#")
        if token.type == tokenize.COMMENT and DANGLING.match(token.string) and not in_block:
            findings.append(f"{row}: {token.string}")
    return findings


def find_riddles(source: str) -> list[str]:
    """Returns the first lines of docstrings that begin with What, Whether, Those and the like."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    texts = [(node.lineno, ast.get_docstring(node) or "") for node in nodes]
    return [f"{row}: {text.splitlines()[0]}" for row, text in texts if RIDDLE.match(text)]


@pytest.mark.long
@pytest.mark.parametrize("kind, find", [("dangling", find_dangling), ("riddle", find_riddles)])
def test_comments_and_docstrings_name_their_subject(kind, find):
    findings = [
        f"{path.relative_to(paths.ROOT)}:{finding}"
        for path in paths.find_files(*(f"{package}/**/*.py" for package in PACKAGES))
        for finding in find(path.read_text("utf-8"))
    ]
    assert len(findings) <= MAX_FINDINGS[kind], "\n".join(findings)


def test_the_findings_of_a_source():
    source = (
        "x = 1  # of its parent\n"
        "y = 2  # the root has no parent\n"
        "# Rows are sorted\n"
        "# by length.\n"
        "def f():\n"
        '    """Whether it is so."""\n'
        "def g():\n"
        '    """Returns the number of rows."""\n'
    )
    assert find_dangling(source) == ["1: # of its parent"]
    assert find_riddles(source) == ["5: Whether it is so."]
