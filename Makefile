# make demo   the whole road on a synthesised corpus: speech, TFRecords, three models, a SavedModel, transcripts
# make test   lint and the tests that guard a change, in five minutes on two cores
# make test-long  those, then the long ones: trainings, exports and whole programs of more than two seconds each
# make test-all  those, then the slow ones: soaks, browser, clusters of processes, benchmarks
# make lint   ruff, and who may import whom
# make bench  builder, training, encode, transcription and decoding, each beside a peer: ratios and bars
# make gpu-check  what a machine with GPUs runs first: devices, XLA, precisions, replicas, beside the CPU's losses
# make soak   a build killed a thousand times, at random moments; ten thousand hostile requests to the server
#
# The first call makes .venv and installs the pinned requirements; later calls install nothing until those change.
# PYTHON=python3.11 chooses a Python, and with it the TensorFlow; VENV=DIRECTORY keeps its environment beside others.

VENV ?= .venv
ifneq ($(words $(VENV)),1)
$(error VENV is "$(VENV)", expected a path without spaces)
endif
# TensorFlow 2.15 has wheels for CPython 3.10 and 3.11, TensorFlow 2.21 for later ones, but none for Intel Macs.
VERSIONS := $(shell [ "$$(uname -sm)" = "Darwin x86_64" ] || echo 3.13 3.12) 3.11 3.10
RANGE = CPython from 3.10 to $(firstword $(VERSIONS))
# Run, not looked up: a pyenv shim exists for versions that are not active, and Debian ships python3 without ensurepip.
# The executable is the one that an active environment was made from.
PROBE = -c 'import ensurepip, os.path, sys, venv; version = "%d.%d" % sys.version_info[:2]; \
	sys.implementation.name == "cpython" and version in "$(VERSIONS)".split() or sys.exit(1); \
	base = os.path.join(sys.base_prefix, "bin", "python" + version); \
	print(version, sys.executable if sys.prefix == sys.base_prefix else base)'
VENV_PYTHON = $(VENV)/bin/python
PIP_INSTALL = $(VENV_PYTHON) -m pip install --disable-pip-version-check --progress-bar=on
# One more than the two cores: a test that waits for processes leaves one idle.
TEST_WORKERS ?= 3

PYTEST = $(VENV_PYTHON) -m pytest -q -n $(TEST_WORKERS) --dist=loadfile --no-loadscope-reorder

.PHONY: demo test test-long test-all lint bench gpu-check soak environment

demo: $(VENV)/installed
	$(VENV_PYTHON) -m estimator_asr.demo --output_dir=demo

test: lint
	$(PYTEST) -m "not slow and not long"

test-long: test
	$(PYTEST) -m "long and not slow"

test-all: test-long
	$(PYTEST) -m slow

lint: $(VENV)/installed-dev
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .
	$(VENV)/bin/lint-imports --no-cache

BENCHMARKS = builder train_step language pretrained transcription decoding real_time streaming devices

# A missed bar does not keep the next ones from running.
bench: $(VENV)/installed-dev
	$(PIP_INSTALL) -r benchmarks/requirements.txt
	@failed=0; for name in $(BENCHMARKS); do \
	  echo "$(VENV_PYTHON) -m benchmarks.$$name"; $(VENV_PYTHON) -m benchmarks.$$name || failed=1; \
	done; exit $$failed

gpu-check: $(VENV)/installed
	$(VENV_PYTHON) -m benchmarks.gpu_check

soak: $(VENV)/installed-dev
	NUM_KILLS=1000 $(VENV_PYTHON) -m pytest -q --timeout=7200 tests/tfrecord_builder/building/test_recovery.py
	NUM_HOSTILE_REQUESTS=10000 $(VENV_PYTHON) -m pytest -q --timeout=7200 tests/estimator_asr/serving/server/test_hostile.py

# The version of the environment, if it runs and has pip, and the one that is asked for: PYTHON=python3.12 names it.
FOUND := $(firstword $(shell $(VENV_PYTHON) -c 'import pip' 2>/dev/null && $(VENV_PYTHON) $(PROBE) 2>/dev/null))
PYENV = "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions
ifneq ($(PYTHON),)
WANTED := $(or $(filter 3.%,$(PYTHON:python%=%)),$(firstword $(shell "$(PYTHON)" $(PROBE) 2>/dev/null)))
ifeq ($(filter $(WANTED),$(VERSIONS)),)
$(error PYTHON is $(PYTHON), expected a $(RANGE) that runs and has its venv module)
endif
CANDIDATES = "$(PYTHON)" python$(WANTED) $(PYENV)/$(WANTED).*/bin/python
EXPECTED = CPython $(WANTED)
else
CANDIDATES = $(foreach version,$(VERSIONS),python$(version) $(PYENV)/$(version).*/bin/python) python3 python
EXPECTED = $(RANGE)
endif
IS_FIT := $(if $(WANTED),$(filter $(WANTED),$(FOUND)),$(FOUND))

$(VENV)/installed: requirements.txt $(if $(IS_FIT),,environment)
	$(PIP_INSTALL) -r requirements.txt
	@touch $@

$(VENV)/installed-dev: requirements-dev.txt $(VENV)/installed
	$(PIP_INSTALL) -r requirements-dev.txt
	@touch $@

# An environment that does not fit is replaced if make made it.
environment:
	@for python in $(CANDIDATES); do \
	  if base=$$("$$python" $(PROBE) 2>/dev/null); then break; fi; \
	done; \
	if [ -z "$$base" ] && ! command -v uv >/dev/null 2>&1; then \
	  echo "No $(EXPECTED) was found: install one with its venv module (or install uv), then call make again." >&2; exit 1; \
	fi; \
	if [ -e $(VENV) ]; then \
	  is="$(VENV) has $(if $(FOUND),CPython $(FOUND),no Python that fits), expected a $(EXPECTED) that runs and has pip"; \
	  if ! [ -e $(VENV)/made-by-make ] && ! [ -e $(VENV)/installed ] && ! [ -e $(VENV)/installed-dev ]; then \
	    echo "$$is; make did not make it: delete it, or name another directory with VENV=." >&2; exit 1; \
	  fi; \
	  echo "$$is; it is replaced."; rm -rf $(VENV); \
	fi; \
	if [ -n "$$base" ]; then \
	  mkdir -p $(VENV) && touch $(VENV)/made-by-make && "$${base#* }" -m venv $(VENV); \
	else \
	  uv venv --seed --python $(or $(WANTED),$(firstword $(VERSIONS))) $(VENV) && touch $(VENV)/made-by-make; \
	fi
