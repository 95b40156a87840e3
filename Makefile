# Every target sets up what it needs in .venv; `make` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
FUZZ_SECONDS ?= 60

.PHONY: help demo test test-slow lint bench fuzz docs golden clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/ready-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: $(VENV)/ready-plot ## one pass over a synthetic stream: a table, and the sparsity-error curve as demo.png
	$(BIN)/thinstream demo

test: $(VENV)/ready-test $(VENV)/ready-lint ## lint, then all tests but the slow ones, then every naive twin without jit
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not slow'
	NUMBA_DISABLE_JIT=1 THINSTREAM_HYPOTHESIS=interpreted $(BIN)/python -m pytest -n $(WORKERS) -q -m twin tests

test-slow: $(VENV)/ready-test ## everything, with twenty times as many random streams
	THINSTREAM_HYPOTHESIS=slow $(BIN)/python -m pytest -n $(WORKERS)

lint: $(VENV)/ready-lint ## ruff, mypy (strict), import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/ready-bench ## speed against scikit-learn, Vowpal Wabbit and hand-fused loops, side by side (minutes, 4 GB of disk)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/streams.py
	$(BIN)/python benchmarks/lanes.py
	$(BIN)/python benchmarks/tuning.py

fuzz: $(VENV)/ready-fuzz ## coverage-guided fuzzing of the parsers: FUZZ_SECONDS (default 60) for each format
	$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS)

docs: $(VENV)/ready-plot ## rewrite the generated parts of the docs (table of algorithms, type stub)
	$(BIN)/python -m tools.generate

golden: $(VENV)/ready-test ## rewrite tests/rules/golden.json from the naive twins
	$(BIN)/python -m tests.rules.golden

clean: ## remove .venv and everything built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
