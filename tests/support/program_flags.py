"""Finds out which flags and values the command-line programs accept, in a separate process.

All programs define their flags in absl's global list, so the flags of one program are removed before the next
program defines its own.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping

import paths

ROOT = paths.ROOT
# For each flag file, the program that reads it and the other flags that the program needs.
OF_FLAG_FILES = {
    "build.flags": ("tfrecord_builder.build", ["--corpus_dir=CORPUS", "--output_dir=DATA"]),
    "acoustic.flags": ("estimator_asr.train", ["--data_dir=DATA", "--model_dir=AM"]),
    "language.flags": ("estimator_asr.train", ["--data_dir=TEXT", "--model_dir=LM"]),
    "punctuation.flags": ("estimator_asr.train", ["--data_dir=MARKS", "--model_dir=PM"]),
}

PATTERNS = "[]*?\\"
URLS = ("gs://bucket/a", "s3://bucket/a", "hdfs://host/a")  # files.py does not support hdfs

_ASK = """
import json, runpy, sys
import tensorflow  # which defines flags of its own
from absl import app, flags, logging
others = set(flags.FLAGS)
from tfrecord_builder.program import config_flags, program

configs, own = [], []

def define(main, *classes, takes_words=False, groups=None):
    configs[:] = classes
    before = set(flags.FLAGS)
    assert before == others, f"the import of {sys.argv[0]} defines a flag"
    for config in classes:
        config_flags.define(config, groups=groups)
    own[:] = sorted(set(flags.FLAGS) - before)

program.run = define

def ask(module, commands, urls):
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    names = {key: [flag.name for flag in of] for key, of in flags.FLAGS.flags_by_module_dict().items()}
    switches = {name: flags.FLAGS[name].boolean for name in flags.FLAGS}
    answer = {"flags": {**switches, "flagfile": False}}  # absl lists --flagfile nowhere
    answer["headings"] = {heading: listed for heading, listed in names.items() if {*listed} & {*own}}
    answer["parsed"] = {name: parse(own, module, command) for name, command in commands.items()}
    say = lambda word: parse(own, module, [word]).get("error")
    answer["patterns"] = {flag: [say(f"--{flag}=/a{special}") for special in PATTERNS] for flag in own}
    answer["remote"] = {flag: [say(f"--{flag}={url}") for url in urls] for flag in own}
    answer["limits"] = {flag: describe(flags.FLAGS[flag]) for flag in own}
    for name in own:
        delattr(flags.FLAGS, name)
    return answer

def describe(flag):
    limits = {**vars(flag.parser.described), "help": None, "presets": None}
    if limits["choices"]:
        limits["choices"] = ",".join(map(str, limits["choices"]))
    limits = {name: value for name, value in limits.items() if value is not False and value not in ("", None)}
    named = [f"{name}={value}" for name, value in limits.items()]
    return [repr(flag.default), *named]

def parse(own, module, command):
    for flag in own:
        flags.FLAGS[flag].unparse()
    sys.argv = [module, *command]
    try:
        words = flags.FLAGS(sys.argv)[1:]
        for config in configs:
            config_flags.from_flags(config)
    except (flags.Error, ValueError) as error:
        return {"error": str(error)}
    values = {name: repr(flags.FLAGS[name].value) for name in own if flags.FLAGS[name].present}
    defaults = {name: repr(flags.FLAGS[name].default) for name in values}
    return {"words": words, "values": values, "defaults": defaults}

commands, urls, PATTERNS = json.load(sys.stdin)
print(json.dumps({module: ask(module, of_module, urls) for module, of_module in commands.items()}))
"""


def ask(commands: Mapping[str, Mapping[str, Iterable[str]]]) -> dict[str, dict]:
    """Parses command lines as the programs would, without running them.

    Args:
      commands: module -> any name -> arguments after the module.

    Returns:
      module -> {"flags": flag -> True if it needs no value,
                 "headings": heading in --helpfull -> its flags,
                 "parsed": name -> {"error": ...} or {"words", "values", "defaults"},
                 "patterns": flag -> the error for a path with each character of PATTERNS, or None,
                 "limits": flag -> its default and what its Setting allows,
                 "remote": flag -> the error for each of URLS, or None}.
    """
    asked = json.dumps([commands, URLS, PATTERNS])
    command = [sys.executable, "-c", _ASK]
    completed = subprocess.run(command, input=asked, capture_output=True, text=True, cwd=ROOT)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout.splitlines()[-1])


def programs() -> tuple[str, ...]:
    """Returns the modules that are command-line programs."""
    modules = []
    for path in paths.find_files("tfrecord_builder/**/*.py", "estimator_asr/**/*.py"):
        if "    program.run(" in path.read_text(encoding="utf-8"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            modules.append(module.removesuffix(".__main__"))
    return tuple(sorted(modules))


def ask_all() -> dict[str, dict]:
    """Returns the answers of all programs, including the results of parsing their flag files."""
    commands = {module: {} for module in programs()}
    for path in paths.find_files("flags/**/*.flags"):
        program, needed = OF_FLAG_FILES[path.name]
        name, command = str(path.relative_to(ROOT / "flags")), [*needed, f"--flagfile={path}"]
        commands[program][name] = command
        if program == "estimator_asr.train":
            commands[program][f"{name} --train_steps=100"] = ["--train_steps=100", *command]
    return ask(commands)


def tabulate(answers: Mapping[str, dict]) -> str:
    """Returns a line for each flag of each program: the program, the flag, its default and its limits."""
    return "".join(
        "\t".join([module, flag, *limits]) + "\n"
        for module, answer in answers.items()
        for flag, limits in answer["limits"].items()
    )


if __name__ == "__main__":
    print(tabulate(ask_all()), end="")
