"""N-gram models for tests: one written by hand, and those that KenLM and IRSTLM made from an invented text.

lmplz -o 3 --prune 0 0 1 < invented.txt > kenlm.arpa
tlm -tr=MARKED -n=3 -lm=wb -oarpa=irstlm.arpa      (MARKED: each line of invented.txt between <s> and </s>)
"""

import paths

from estimator_asr.decoding.ngrams import kneser_ney

DIRECTORY = paths.ROOT / "tests" / "data" / "ngrams"

ARPA = """\\data\\
ngram 1=5
ngram 2=3
ngram 3=1

\\1-grams:
-2\t<unk>
-99\t<s>\t-0.5
-1\t</s>
-0.5\ta\t-0.25
-0.75\tb\t-0.125

\\2-grams:
-0.1\t<s> a\t-0.0625
-0.2\ta b
-0.3\tb </s>

\\3-grams:
-0.05\t<s> a b

\\end\\
"""


def write(directory, text: str = ARPA) -> str:
    """Writes an ARPA file."""
    path = directory / "small.arpa"
    path.write_text(text, encoding="utf-8")
    return str(path)


def read_text() -> kneser_ney.Text:
    """Returns the invented text."""
    lines = (DIRECTORY / "invented.txt").read_text(encoding="utf-8").splitlines()
    return kneser_ney.encode(line.split() for line in lines)
