# Every target sets up what it needs in .venv; `make` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
FUZZ_SECONDS ?= 60
SLICE_SECONDS ?= 300
GALLERY ?= all
# where tests are that run without jit: looking for them in all others takes ten seconds (tests/test_marks.py)
TWINS = tests/algorithms/online $(shell grep -rlE 'mark\.(twin|interpreted)' tests --include='test_*.py')
# the tests of `make test`: compiled, and without jit (there with lanes on a GPU, in numba's simulator)
COMPILED = -m 'not slow and not interpreted and not faults and not services and not browser and not ray and not spark'
WITHOUT_JIT = NUMBA_DISABLE_JIT=1 NUMBA_ENABLE_CUDASIM=1 THINSTREAM_HYPOTHESIS=interpreted
INTERPRETED = -m '(twin or interpreted) and not (gpu and slow)' $(TWINS)
# `make coverage` leaves out tests of docs, benchmarks and the fuzzer
COVERED ?= tests --ignore tests/benchmarks --ignore tests/docs --ignore tests/fuzz
# hundreds of processes are started: each would compile every module it imports to bytecode again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test compiled interpreted test-slice test-slow test-faults test-services test-browser test-distributed test-gpu test-mlflow test-versions coverage dist lint style types bench versus reproduce fuzz docs docs-site golden clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/ready-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# bytecode is made of what is imported, as it is: half a minute less
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[$*]'
	@touch $@

demo: $(VENV)/ready-plot ## train and thin a model of the docstrings of NumPy, SciPy and scikit-learn, in thinstream-demo
	$(BIN)/thinstream demo

test: $(VENV)/ready-test ## lint, all tests but the slow ones, and every naive twin without jit
	@$(MAKE) --no-print-directory style
	@# types and interpreted twins run beside the compiled tests, so that no core idles, and are shown after them
	@$(MAKE) --no-print-directory types interpreted > $(VENV)/beside.log 2>&1 & beside=$$!; \
	trap 'kill $$beside 2> /dev/null' INT TERM; \
	$(MAKE) --no-print-directory compiled; tests=$$?; \
	wait $$beside; others=$$?; cat $(VENV)/beside.log; \
	exit $$((tests | others))

compiled: $(VENV)/ready-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(COMPILED)

interpreted: $(VENV)/ready-test
	$(WITHOUT_JIT) $(BIN)/python -m pytest -q $(INTERPRETED)

test-slice: $(VENV)/ready-test ## five minutes (SLICE_SECONDS) of the slow tests with fresh random examples, chosen by the commit's hash (SEED)
	$(BIN)/python -m tests.slow_slice --workers $(WORKERS) --seconds $(SLICE_SECONDS) $(if $(SEED),--seed $(SEED))

test-slow: $(VENV)/ready-test ## everything on one machine, with more than ten times as many random streams
	THINSTREAM_HYPOTHESIS=tenfold $(BIN)/python -m pytest -n $(WORKERS) -m 'not faults and not services and not browser and not ray and not spark'
	NUMBA_DISABLE_JIT=1 NUMBA_ENABLE_CUDASIM=1 $(BIN)/python -m pytest -q -n $(WORKERS) -m 'gpu and slow' tests/lanes/cuda tests/tuning/test_study_on_device.py

test-faults: $(VENV)/ready-test ## every write, fsync and rename of models, checkpoints, caches and shuffles fails once; full disks
	$(BIN)/python -m pytest -n $(WORKERS) -m faults tests/faults

test-browser: $(VENV)/ready-test-browser ## the dashboard in chromium (apt install chromium), driven by playwright; skipped where there is none
	$(BIN)/python -m pytest -rs -m browser tests/serve/dashboard

test-services: $(VENV)/ready-test-services ## sources: learners and brokers killed under flow; servers of Redis and NATS, Kafka's own cluster for tests
	@tests/data/brokers/install.sh redis-server nats-server
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m services tests/data/brokers \
	    tests/training/test_live.py tests/serve/test_sources.py tests/cli/test_brokers.py tests/docs/test_sources.py

test-distributed: $(VENV)/ready-test-distributed ## learning on Ray and on Spark, clusters of two nodes on this machine
	$(BIN)/python -m pytest -m 'ray or spark' tests/distributed

test-mlflow: $(VENV)/ready-test-mlflow ## models saved, logged, loaded and served by MLflow
	$(BIN)/python -m pytest -m mlflow tests/test_mlflow.py

test-versions: $(VENV)/ready-dist ## a quick part of the tests in every Python here, with the oldest and the newest packages: docs/versions.md
	$(BIN)/python -m tools.versions

coverage: $(VENV)/ready-coverage ## lines that tests run in pytest's own process, compiled code without jit; a report in build/coverage/html
	rm -rf build/coverage
	mkdir -p build/coverage
	$(WITHOUT_JIT) $(BIN)/python -m pytest -q --cov --cov-report= $(INTERPRETED)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --cov --cov-append --cov-report= $(COMPILED) $(COVERED)
	$(BIN)/python -m coverage html
	$(BIN)/python -m coverage report

dist: $(VENV)/ready-dist ## pure wheel, sdist and a wheel with compiled code into dist/, checked, each installed in a bare environment and run
	$(BIN)/python -m tools.dist

test-gpu: $(VENV)/ready-test-gpu ## lanes on this machine's GPU, bit for bit as on its CPU
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m gpu tests

lint: style types ## ruff, mypy (strict), import contracts

style: $(VENV)/ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready-test
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/ready-bench ## speed against scikit-learn, Vowpal Wabbit and hand-fused loops, side by side (minutes, 4 GB of disk)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/streams.py
	$(BIN)/python benchmarks/formats.py
	$(BIN)/python benchmarks/crosses.py
	$(BIN)/python benchmarks/in_memory.py
	$(BIN)/python -m benchmarks.budget
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python benchmarks/lanes.py
	$(BIN)/python benchmarks/single_row.py
	$(BIN)/python benchmarks/intercept.py
	$(BIN)/python benchmarks/preparing.py
	$(BIN)/python benchmarks/auto.py
	$(BIN)/python benchmarks/tuning.py
	$(BIN)/python benchmarks/batch.py

versus: $(VENV)/ready-bench ## thinstream beside its peers on real sets, see docs/versus.md (an hour; needs the data sets)
	$(BIN)/python -m benchmarks.versus
	$(BIN)/python -m benchmarks.versus --auto
	$(BIN)/python -m benchmarks.versus --thin
	$(BIN)/python -m benchmarks.versus --tried
	$(BIN)/python -m benchmarks.versus --times
	$(BIN)/python -m benchmarks.versus.front

reproduce: $(VENV)/ready-plot ## the papers' tables and figures, see docs/reproduction.md (under two hours; needs the data sets)
	$(BIN)/python -m papers all --out docs/reproduction

fuzz: $(VENV)/ready-fuzz ## coverage-guided fuzzing of the parsers, FUZZ_SECONDS (default 60) for each format, 337,000 inputs against naive readers, and 100,000 requests to a server
	$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.misreads --inputs 337000
	$(BIN)/python -m tests.fuzz.serving --requests 100000

docs: $(VENV)/ready-plot ## rewrite what is generated: the estimator classes, the table of algorithms, drawings
	$(BIN)/python -m tools.generate

docs-site: $(VENV)/ready-docs ## the documentation site, into build/site: warnings are errors, every link is followed (GALLERY=off: no story is run)
	$(BIN)/python -m tools.site --jobs $(WORKERS) --gallery '$(GALLERY)'

golden: $(VENV)/ready-test ## rewrite the golden numbers from the naive twins
	$(BIN)/python -m tests.algorithms.online.golden
	$(BIN)/python -m tests.algorithms.batch.golden

clean: ## remove .venv and everything built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
