"""Who may import whom: the rules held against every file, and the checker against made-up houses."""

from __future__ import annotations

import ast
import subprocess
import sys

import paths
import pytest

ROOT = paths.ROOT
PACKAGES = ("tfrecord_builder", "estimator_asr")
# What every room of both packages may import; `output` writes a directory of shards, also for encoding.
SHARED = [
    f"tfrecord_builder.{name}"
    for name in ("errors", "settings", "storage", "audio", "tokens", "data", "runtime")
]
CONTRACT = [*SHARED, "tfrecord_builder.output"]
# The demo makes a corpus, and hotwords are written by users as transcripts are: they know what a label is.
OF_LABELS = ["tfrecord_builder.labels", "tfrecord_builder.corpora.text_files"]
READERS_OF_LABELS = ["estimator_asr.demo", "estimator_asr.hotwords", "estimator_asr.saved_model.hotwords"]


def _rooms(names: str) -> set[str]:
    return {f"estimator_asr.{name}" for name in names.split()}


# What a room of estimator_asr may import of estimator_asr.
GROUND = _rooms("experiment estimator")
FOLDERS = {
    "models": _rooms("models experiment.config"),
    "inputs": _rooms("inputs experiment.config experiment.task_spec"),
    "encoding": _rooms("encoding inputs models checkpointing") | GROUND,
    "scoring": _rooms("scoring"),
    "ngrams": _rooms("ngrams"),
    "tasks": _rooms("tasks models") | GROUND,
    "checkpointing": _rooms("checkpointing models") | GROUND,
    "saved_model": _rooms("saved_model tasks models checkpointing") | GROUND,
    "recognition": _rooms("recognition saved_model tasks inputs models checkpointing scoring") | GROUND,
    "exporting": _rooms("exporting saved_model tasks inputs models checkpointing scoring") | GROUND,
    "transcripts": _rooms("transcripts saved_model.statuses"),
    "tuning": _rooms("tuning saved_model tasks models inputs scoring") | GROUND,
    "training": _rooms("training tasks inputs models checkpointing") | GROUND,
    "monitoring": _rooms("monitoring training tasks inputs") | GROUND,
    "diagnostics": _rooms("diagnostics monitoring training tasks inputs models checkpointing") | GROUND,
    "demo": _rooms("demo scoring"),
    "server": _rooms("server transcripts hotwords saved_model.recogniser saved_model.statuses"),
}
# What a room of tfrecord_builder may import of its rooms.
BUILDER_ROOMS = {
    "corpora": ["tfrecord_builder.corpora"],
    "labels": ["tfrecord_builder.labels", "tfrecord_builder.corpora.text_files"],
    "augmentation": ["tfrecord_builder.augmentation"],
    "downloading": ["tfrecord_builder.downloading"],
    "records": [f"tfrecord_builder.{room}" for room in ("records", "labels", "augmentation")],
    "report": [f"tfrecord_builder.{room}" for room in ("report", "records", "labels")],
    "output": ["tfrecord_builder.output"],
    "building": [
        f"tfrecord_builder.{room}"
        for room in ("building", "output", "report", "records", "labels", "augmentation", "corpora")
    ],
}
# The tensor functions of the contract: models/ knows no files and no flags.
CONTRACT_OF_MODELS = [
    f"tfrecord_builder.{name}" for name in ("audio.frontend", "tokens.syllables", "runtime.lazy_tensorflow")
]
FORBIDDEN_IN_MODELS = {"os", "pathlib", "io", "shutil", "tempfile", "absl", "tensorflow_estimator"}
WITHOUT_TENSORFLOW = ("scoring", "transcripts")
FORBIDDEN_WITHOUT_TENSORFLOW = {"tensorflow", "tensorflow_io", "keras", "absl"}
TF_FORBIDDEN_IN_MODELS = (
    "tf.estimator",
    "tf.summary",
    "tf.io",
    "tf.data",
    "tf.compat.v1.summary",
    "tf.compat.v1.gfile",
)
# These two run on a SavedModel alone.
WITHOUT_MODEL_CODE = ("estimator_asr.transcribe", "estimator_asr.serve")
MODEL_CODE = (
    "estimator_asr.tasks",
    "estimator_asr.models",
    "estimator_asr.training",
    "estimator_asr.inputs",
    "estimator_asr.experiment.model_directory",
)


class House:
    """The imports of a set of modules.

    Args:
      sources: source text by module name; a package is named without .__init__.
    """

    def __init__(self, sources: dict[str, str]):
        self.sources = sources
        self.trees = {name: ast.parse(source) for name, source in sources.items()}
        self.imports = {name: self._imports(name) for name in sources}
        self.programs = {name for name, source in sources.items() if '__name__ == "__main__"' in source}

    def _imports(self, module: str) -> set[str]:
        """Every module that this one imports, wherever in the file; of another project as it is written."""
        found = set()
        for node in ast.walk(self.trees[module]):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                found.update(self._target(base, alias.name) for alias in node.names)
        return found

    def _target(self, base: str, name: str) -> str:
        return f"{base}.{name}" if f"{base}.{name}" in self.sources or base in PACKAGES else base

    def reachable(self, module: str) -> set[str]:
        """The modules of the house that load when this one does."""
        seen, waiting = set(), [module]
        while waiting:
            current = waiting.pop()
            if current in self.sources and current not in seen:
                seen.add(current)
                waiting.extend(self.imports[current])
        return seen - {module}


def is_within(module: str, parents) -> bool:
    return any(module == parent or module.startswith(parent + ".") for parent in parents)


def violations(house: House) -> list[str]:
    """Every breach of a rule, as "module: what"."""
    rules = (
        _between_packages,
        _within_estimator_asr,
        _within_tfrecord_builder,
        _programs,
        _models,
        _without_tensorflow,
        _saved_model_alone,
        _style,
        _flags,
    )
    found = [
        f"{module}: {what}" for rule in rules for module in house.sources for what in rule(house, module)
    ]
    return sorted(found) + [f"circle: {' -> '.join(circle)}" for circle in circles(house)]


def _between_packages(house, module):
    for target in house.imports[module]:
        if is_within(module, ["tfrecord_builder"]) and is_within(target, ["estimator_asr"]):
            yield f"the builder imports {target}"
        if (
            is_within(module, ["estimator_asr"])
            and is_within(target, ["tfrecord_builder"])
            and not is_within(target, CONTRACT)
            and not (is_within(module, READERS_OF_LABELS) and is_within(target, OF_LABELS))
        ):
            yield f"imports {target}, which is not contract"
        if is_within(module, CONTRACT) and is_within(target, PACKAGES) and not is_within(target, CONTRACT):
            yield f"contract imports {target}, which is not contract"


def _within_estimator_asr(house, module):
    allowed = {f"estimator_asr.{folder}": parents for folder, parents in FOLDERS.items()}
    allowed.update({ground: GROUND for ground in GROUND})
    for home, parents in allowed.items():
        if is_within(module, [home]):
            for target in house.imports[module]:
                if is_within(target, ["estimator_asr"]) and not is_within(target, parents):
                    yield f"imports {target}, which is not below it"


def _within_tfrecord_builder(house, module):
    for room, parents in BUILDER_ROOMS.items():
        if is_within(module, [f"tfrecord_builder.{room}"]):
            for target in house.imports[module]:
                if target.startswith("tfrecord_builder.") and target.count(".") > 1:
                    if not is_within(target, [*parents, *SHARED]):
                        yield f"imports {target}, which is not below it"


def _programs(house, module):
    for target in house.imports[module] & house.programs:
        yield f"imports the program {target}"


def _models(house, module):
    if not is_within(module, ["estimator_asr.models"]):
        return
    for target in house.imports[module]:
        is_contract = is_within(target, CONTRACT) and not is_within(target, CONTRACT_OF_MODELS)
        if target.split(".")[0] in FORBIDDEN_IN_MODELS or is_contract:
            yield f"a model imports {target}"
    for name in _dotted_names(house.trees[module]):
        if is_within(name, TF_FORBIDDEN_IN_MODELS) or name == "open":
            yield f"a model uses {name}"


def _without_tensorflow(house, module):
    for room in WITHOUT_TENSORFLOW:
        for target in house.imports[module] if is_within(module, [f"estimator_asr.{room}"]) else ():
            if target.split(".")[0] in FORBIDDEN_WITHOUT_TENSORFLOW:
                yield f"{room} imports {target}, expected pure Python and numpy"


def _saved_model_alone(house, module):
    if module in WITHOUT_MODEL_CODE:
        for target in house.reachable(module):
            if is_within(target, MODEL_CODE):
                yield f"loads {target}, expected a SavedModel alone"


def _style(house, module):
    if module != "estimator_asr.estimator.estimator_api":
        uses_estimator = any(is_within(n, ["tf.estimator"]) for n in _dotted_names(house.trees[module]))
        if uses_estimator or any(is_within(t, ["tensorflow_estimator"]) for t in house.imports[module]):
            yield "reaches tf.estimator, expected estimator_api"
    for target in house.imports[module]:
        if target.startswith("."):
            yield f"relative import {target}"
    wildcards = [n for n in ast.walk(house.trees[module]) if isinstance(n, ast.alias) and n.name == "*"]
    yield from ("wildcard import" for _ in wildcards)


def _flags(house, module):
    """FLAGS is read in the two contract modules that serve programs."""
    if module not in {"tfrecord_builder.settings.config_flags", "tfrecord_builder.settings.program"}:
        names = set(_dotted_names(house.trees[module]))
        if names & {"flags.FLAGS", "FLAGS"}:
            yield "reads FLAGS, expected only config_flags to"
        if any(name.startswith("flags.DEFINE") for name in names):
            yield "defines a flag, expected only config_flags to"


def circles(house: House) -> list[list[str]]:
    """Shortest path from a module back to itself, for each module on a circle."""
    found = []
    for start in sorted(house.sources):
        paths = [[start]]
        seen = set()
        while paths:
            path = paths.pop(0)
            for target in sorted(house.imports[path[-1]] & set(house.sources)):
                if target == start:
                    found.append([*path, start])
                    paths.clear()
                    break
                if target not in seen:
                    seen.add(target)
                    paths.append([*path, target])
    return found


def _dotted_names(tree) -> list[str]:
    found = (_dotted(node) for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Name)))
    return [name for name in found if name]


def _dotted(node) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return (
        f"{_dotted(node.value)}.{node.attr}"
        if isinstance(node, ast.Attribute) and _dotted(node.value)
        else ""
    )


def read_house() -> House:
    sources = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            sources[name] = path.read_text(encoding="utf-8")
    return House(sources)


def test_the_house_keeps_its_rules():
    house = read_house()
    assert len(house.sources) > 40 and house.programs  # the walk found the house
    assert violations(house) == []


SOUND = {
    "tfrecord_builder.errors": "import sys",
    "tfrecord_builder.tokens.vocabulary": "from tfrecord_builder import errors",
    "tfrecord_builder.audio.frontend": "import tensorflow as tf",
    "tfrecord_builder.settings.config_flags": "from absl import flags\ndefault = flags.FLAGS",
    "tfrecord_builder.building.worker_pool": "from tfrecord_builder.tokens import vocabulary",
    "tfrecord_builder.corpora.kaldi": "from tfrecord_builder import errors",
    "tfrecord_builder.build": "from tfrecord_builder.building import worker_pool\n"
    'if __name__ == "__main__": pass',
    "estimator_asr.experiment.config": "from tfrecord_builder.settings import config_flags",
    "estimator_asr.estimator.estimator_api": "import tensorflow as tf\ntf.estimator.Estimator",
    "estimator_asr.models.layers": "import tensorflow as tf",
    "estimator_asr.models.acoustic": "from estimator_asr.models import layers\n"
    "from tfrecord_builder.audio import frontend",
    "estimator_asr.inputs.input_fn": "from tfrecord_builder.tokens import vocabulary",
    "estimator_asr.scoring.error_rate": "import numpy as np",
    "estimator_asr.training.model_fn": "from estimator_asr.estimator import estimator_api\n"
    "from estimator_asr.inputs import input_fn\nfrom estimator_asr.models import acoustic",
    "estimator_asr.saved_model.cascade": "from estimator_asr.models import acoustic\n"
    "import tfrecord_builder.tokens.vocabulary",
    "estimator_asr.transcribe": 'from tfrecord_builder import errors\nif __name__ == "__main__": pass',
    "estimator_asr.train": 'from estimator_asr.training import model_fn\nif __name__ == "__main__": pass',
}


def test_a_sound_made_up_house_has_no_violations():
    assert violations(House(SOUND)) == []


@pytest.mark.parametrize(
    "module, added, said",
    [
        (
            "tfrecord_builder.building.worker_pool",
            "from estimator_asr.experiment import config",
            "the builder imports estimator_asr.experiment.config",
        ),
        (
            "estimator_asr.experiment.config",
            "from tfrecord_builder.building import worker_pool",
            "tfrecord_builder.building.worker_pool, which is not contract",
        ),
        (
            "estimator_asr.experiment.config",
            "import tfrecord_builder.building.worker_pool",
            "tfrecord_builder.building.worker_pool, which is not contract",
        ),
        (
            "tfrecord_builder.tokens.vocabulary",
            "from tfrecord_builder.building import worker_pool",
            "contract imports",
        ),
        ("estimator_asr.models.layers", "from estimator_asr.inputs import input_fn", "which is not below it"),
        ("estimator_asr.inputs.input_fn", "from estimator_asr.models import layers", "which is not below it"),
        (
            "tfrecord_builder.corpora.kaldi",
            "from tfrecord_builder.building import worker_pool",
            "which is not below it",
        ),
        (
            "estimator_asr.saved_model.cascade",
            "from estimator_asr.training import model_fn",
            "which is not below it",
        ),
        (
            "estimator_asr.experiment.config",
            "from estimator_asr.models import layers",
            "which is not below it",
        ),
        (
            "estimator_asr.scoring.error_rate",
            "from estimator_asr.experiment import config",
            "which is not below it",
        ),
        ("estimator_asr.scoring.error_rate", "import tensorflow as tf", "scoring imports tensorflow"),
        ("estimator_asr.scoring.error_rate", "def f():\n    import tensorflow", "scoring imports tensorflow"),
        ("estimator_asr.models.layers", "from absl import flags", "a model imports absl"),
        ("estimator_asr.models.layers", "import os.path", "a model imports os.path"),
        (
            "estimator_asr.models.layers",
            "from tfrecord_builder.tokens import vocabulary",
            "a model imports tfrecord_builder.tokens.vocab",
        ),
        (
            "estimator_asr.models.layers",
            "tf.compat.v1.summary.scalar('x', 1)",
            "a model uses tf.compat.v1.summary.scalar",
        ),
        ("estimator_asr.models.layers", "open('x')", "a model uses open"),
        (
            "estimator_asr.training.model_fn",
            "from estimator_asr import train",
            "imports the program estimator_asr.train",
        ),
        (
            "tfrecord_builder.building.worker_pool",
            "from tfrecord_builder import build",
            "imports the program tfrecord_builder.build",
        ),
        (
            "estimator_asr.transcribe",
            "from estimator_asr.saved_model import cascade",
            "expected a SavedModel alone",
        ),
        ("estimator_asr.training.model_fn", "tf.estimator.EstimatorSpec", "reaches tf.estimator"),
        ("estimator_asr.training.model_fn", "from tensorflow_estimator import x", "reaches tf.estimator"),
        ("estimator_asr.models.acoustic", "from . import layers", "relative import"),
        ("estimator_asr.models.acoustic", "from estimator_asr.models.layers import *", "wildcard import"),
        ("estimator_asr.training.model_fn", "x = flags.FLAGS.x", "reads FLAGS"),
        ("tfrecord_builder.building.worker_pool", "flags.DEFINE_bool('x', True, '')", "defines a flag"),
        (
            "estimator_asr.models.layers",
            "from estimator_asr.models import acoustic",
            "circle: estimator_asr.models.acoustic -> estimator_asr.models.layers -> ",
        ),
    ],
)
def test_a_made_up_violation_is_found(module, added, said):
    found = violations(House({**SOUND, module: f"{SOUND[module]}\n{added}"}))
    assert any(said in violation for violation in found), found


def test_packages_are_a_docstring_alone():
    for package in PACKAGES:
        for path in (ROOT / package).rglob("__init__.py"):
            (only,) = ast.parse(path.read_text(encoding="utf-8")).body
            assert isinstance(only, ast.Expr) and isinstance(only.value.value, str), path


def run_python(code: str) -> str:
    completed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip()


def test_importing_the_packages_loads_no_tensorflow():
    packages = sorted(name for name, _ in _packages())
    imports = "; ".join(f"import {name}" for name in packages)
    assert run_python(f"import sys; {imports}; print('tensorflow' in sys.modules)") == "False"


def test_importing_a_module_defines_no_flag():
    imports = "; ".join(f"import {name}" for name in sorted(read_house().sources))
    libraries = "import absl.app, absl.logging, sys, tensorflow"
    count = "known = set(flags.FLAGS)"
    code = f"{libraries}; from absl import flags; {count}; {imports}; print(sorted(set(flags.FLAGS) - known))"
    assert run_python(code) == "[]"


def _packages():
    for package in PACKAGES:
        for path in (ROOT / package).rglob("__init__.py"):
            yield ".".join(path.relative_to(ROOT).parts[:-1]), path
