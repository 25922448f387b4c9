# make demo   the whole road on a synthesised corpus: speech, TFRecords, two models, a SavedModel, transcripts
# make test   lint and the tests that guard a change, in five minutes on two cores
# make test-all  those, then the slow ones: soaks, browser, clusters of processes, benchmarks
# make lint   ruff alone
# make bench  the builder beside kaldi-native-fbank, the training step beside PyTorch, ratios and bars
# make soak   a build killed a thousand times, at random moments
#
# The first call makes .venv and installs the pinned requirements; later calls install nothing until those change.

PYTHON_CANDIDATES = $(PYTHON) python3.11 python3.10 python3.9 python3 python \
	$(HOME)/.pyenv/versions/3.11.*/bin/python $(HOME)/.pyenv/versions/3.10.*/bin/python \
	$(HOME)/.pyenv/versions/3.9.*/bin/python
# Run, not looked up: a pyenv shim exists for versions that are not active, and Debian ships python3 without ensurepip.
SUITABLE = -c 'import ensurepip, sys, venv; sys.exit(sys.implementation.name != "cpython" or not (3, 9) <= sys.version_info[:2] <= (3, 11))'
VENV_PYTHON = .venv/bin/python
PIP_INSTALL = $(VENV_PYTHON) -m pip install --disable-pip-version-check --progress-bar=on
# One more than the two cores: a test that waits for processes leaves one idle.
TEST_WORKERS ?= 3

PYTEST = $(VENV_PYTHON) -m pytest -q -n $(TEST_WORKERS) --dist=loadfile --no-loadscope-reorder

.PHONY: demo test test-all lint bench soak

demo: .venv/installed
	$(VENV_PYTHON) -m estimator_asr.demo --output_dir=demo

test: lint
	$(PYTEST) -m "not slow"

test-all: test
	$(PYTEST) -m slow

lint: .venv/installed-dev
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .

bench: .venv/installed-dev
	$(PIP_INSTALL) -r benchmarks/requirements.txt
	$(VENV_PYTHON) -m benchmarks.builder
	$(VENV_PYTHON) -m benchmarks.train_step

soak: .venv/installed-dev
	NUM_KILLS=1000 $(VENV_PYTHON) -m pytest -q --timeout=7200 tests/tfrecord_builder/building/test_recovery.py

.venv/installed: requirements.txt
	@if ! $(VENV_PYTHON) $(SUITABLE) 2>/dev/null || ! $(VENV_PYTHON) -m pip --version >/dev/null 2>&1; then \
	  for python in $(PYTHON_CANDIDATES); do \
	    if "$$python" $(SUITABLE) >/dev/null 2>&1; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ] && ! command -v uv >/dev/null 2>&1; then \
	    echo "No CPython 3.9, 3.10 or 3.11 was found: install one with its venv module (or install uv), then call make again." >&2; exit 1; \
	  fi; \
	  if [ -e .venv ]; then echo ".venv is replaced: the one that is here has no CPython 3.9, 3.10 or 3.11 that runs and has pip."; fi; \
	  if [ -n "$$found" ]; then "$$found" -m venv --clear .venv; \
	  else rm -rf .venv && uv venv --seed --python 3.11 .venv; fi; \
	fi
	$(PIP_INSTALL) -r requirements.txt
	@touch $@

.venv/installed-dev: requirements-dev.txt .venv/installed
	$(PIP_INSTALL) -r requirements-dev.txt
	@touch $@
