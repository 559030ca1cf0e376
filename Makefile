# make demo   runs the main job on a real model: check, plan, bench
# make test   runs linters, types and the whole test suite
# Both create .venv first. PYTHON=python3.12 chooses another interpreter.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
EXAMPLE := examples/gpt-oss-20b.toml

.PHONY: demo test lint types unit test-vllm test-vllm-quick schema clean

demo: $(VENV)/ready
	$(BIN)/kvengine check $(EXAMPLE)
	$(BIN)/kvengine plan $(EXAMPLE)
	$(BIN)/kvengine bench $(EXAMPLE)

test: lint types unit

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	$(BIN)/mypy

unit: $(VENV)/ready
	$(BIN)/pytest -n 2

# Scenarios inside real vLLM, in environments of their own (some gigabytes, about an hour).
test-vllm: $(VENV)/ready
	$(BIN)/python tests/vllm/run.py

# The core of them: the newest release, in process.
test-vllm-quick: $(VENV)/ready
	$(BIN)/python tests/vllm/run.py --quick

schema: $(VENV)/ready
	$(BIN)/kvengine schema --write
	$(BIN)/python scripts/write_reference.py

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "kvengine needs Python 3.10 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m compileall -q kvengine
	touch $@
