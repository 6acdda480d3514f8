# `make demo` runs the main job, `make test` the tests. Where there is no virtual environment, each
# makes one with pip first. With an environment of your own: make test VENV=/path/to/it

PYTHON ?= python3

ifeq ($(origin VENV),undefined)
VENV := .venv
READY := $(VENV)/.feedrate-is-installed
else
READY := own-environment
endif

BIN := $(VENV)/bin

.PHONY: demo test test-slow lint own-environment clean

demo: $(READY)
	$(BIN)/feedrate demo

test: $(READY)
	$(BIN)/python -m pytest --durations=25

# More of the same kinds, minutes of them. The looks into a process need one that holds little else.
test-slow: $(READY)
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest -m slow tests/measure/causes/alone_*.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A first try without the venv package of a Debian system leaves an environment without pip.
.venv/.feedrate-is-installed: pyproject.toml
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv $(VENV) || { \
	  echo "make: no virtual environment could be made; it needs Python 3.10 or later with venv" \
	       "(Debian and Ubuntu: apt install python3-venv), or name one: make test VENV=..."; \
	  exit 1; }
	$(BIN)/python -m pip install -e '.[vision,dev]'
	@touch $@

own-environment:
	@$(BIN)/python -c 'import feedrate' || { \
	  echo "make: feedrate is not installed in $(VENV):" \
	       "$(BIN)/python -m pip install -e '.[vision,dev]'"; \
	  exit 1; }

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build
