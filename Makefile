# Plain `make` lists the targets. Each installs into .venv what it needs.

BIN := .venv/bin
RUN_STAMP := .venv/.run-installed
CHECK_STAMP := .venv/.check-installed
TEST_STAMP := .venv/.test-installed
PIPELINE_STAMP := .venv/.pipeline-installed
BENCH_STAMP := .venv/.bench-installed
WHEELS_STAMP := .venv/.wheels-installed
LOCK_STAMP := .venv/.lock-installed
KERNEL_STAMP := .venv/.kernel-tried
KERNEL_SOURCES := $(wildcard kernel/Cargo.* kernel/src/*.rs kernel/src/*/*.rs)
SOURCES := $(wildcard app punctual tables pipeline tests benchmarks)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# What `make test` runs: the fast tests and the core of the slow ones. The other tests wait more: with four processes they
# leave a seventh of two cores idle.
CORE := core or not (slow or kafka)
# JVMs take longer to start without class archives.
SUITE := $(BIN)/python -m tests.harness.class_archives kafka 2>/dev/null; \
	$(BIN)/python -m tests.harness.class_archives spark 2>/dev/null & $(BIN)/python -m pytest
# The project itself is built without isolation, by the hatchling of the lock: nothing unpinned is fetched.
INSTALL_PROJECT := $(PIP) --no-deps --no-build-isolation --editable ./punctual --editable .
CHECK_EXTRAS := --extra oidc --extra otel --extra check
TEST_EXTRAS := $(CHECK_EXTRAS) --extra dev --extra docs --extra test
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-package punctual-kafka --no-emit-index-url --no-emit-find-links

.DEFAULT_GOAL := help
.PHONY: help install run kafka topic test test-all check lint format docs bench chaos build clean

define HELP
make install     Create .venv with everything that a worker and the development broker need.
                 NAME=pipeline: install Spark too, for `python -m pipeline` (430 MB)
make run         See it work: start a broker, a worker, and a demo shop that sends delayed messages (KAFKA_PORT).
                 NAME=payment_reminder: run a program of docs/examples
                 NAME=pipeline: send a million messages through Spark, Kafka and a worker, and check the account
make kafka       Run a development broker in the foreground until Ctrl-C (KAFKA_PORT, KAFKA_DATA).
make topic       Create a topic to deliver to: make topic NAME=orders
make test        Run the fast tests, and each promise and each route once on a real broker, which the suite starts itself.
                 NAME=simulation, clients, console, debounce, matrix, neighbours, newcomer, rates, spark: run one test at length
make test-all    Run all other tests: kills, faults, attacks, the guides, packages. Do this before a release.
make check       Run `make lint` and the fast tests, in about a minute. Do this before you commit.
                 ONLY=app/engine/ingest: run only the tests of that file or folder, in seconds
make lint        Check format, lint rules, types and import layers.
make format      Format the code, fix what ruff can fix, and write the generated files again.
make docs        Build the documentation as a site into build/site.
                 NAME=screenshots: take the console's pictures again, from a demo with traffic (MINUTES, CHROMIUM)
make bench       Measure a worker on this machine in three minutes (docs/how-to/measure.md).
                 NAME=full: measure every figure of the documentation, also of other systems (two and a half hours)
make chaos       Kill, stop and cut off everything, and account for every message (an hour or more).
                 NAME=queue, gateway, pipeline, cold, repartition: the same for one part (4 to 30 minutes)
make build       Build the wheels of a release into dist/ (TARGETS).
                 NAME=kernel: build the native extension into .venv, and show why if that fails
                 NAME=lock: choose new versions of all dependencies, and write requirements/
make clean       Remove .venv, caches and build output. Data stays.
endef

# Only `make … NAME=…` and `ONLY=…` set them: some systems have variables of these names in the environment.
ifneq ($(origin NAME),command line)
override NAME :=
endif
ifneq ($(origin ONLY),command line)
override ONLY :=
endif

# For targets with variants: the error message if NAME is none of them.
unknown = $(error NAME=$(NAME) is not known to `make $@`. `make` lists the names)

help:
	@: $(info $(HELP))

install: $(if $(filter pipeline,$(NAME)),$(PIPELINE_STAMP)) $(RUN_STAMP) $(KERNEL_STAMP)
	@: $(if $(filter-out pipeline,$(NAME)),$(unknown))

run: $(if $(filter pipeline,$(NAME)),$(PIPELINE_STAMP),$(RUN_STAMP))
ifeq ($(NAME),)
	@$(BIN)/python -m app.dev.demo --kafka-port $(or $(KAFKA_PORT),9092)
else ifeq ($(NAME),pipeline)
	@$(BIN)/python -m pipeline.demo
else
	@$(BIN)/python -m app.dev.demo.example $(NAME)
endif

kafka: $(RUN_STAMP)
	@$(BIN)/python -m app.dev.broker

topic: $(RUN_STAMP)
	@$(BIN)/python -m app.dev.broker.topic $(NAME)

test: $(TEST_STAMP) $(KERNEL_STAMP)
ifeq ($(NAME),)
	@$(SUITE) -n 4 -m '$(CORE)'
else
	@$(BIN)/python -m tests.long_runs test $(NAME)
endif

test-all: $(TEST_STAMP) $(KERNEL_STAMP)
	@$(SUITE) -n 5 -m 'not ($(CORE))'

check: lint $(KERNEL_STAMP)
	@$(BIN)/python -m tests.check $(ONLY)

lint: $(CHECK_STAMP)
	$(BIN)/ruff format --check . || { echo 'Run `make format`'; exit 1; }
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(CHECK_STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	@$(BIN)/python -m tests.docs.generated

docs: $(TEST_STAMP)
ifeq ($(NAME),)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --config-file docs/site/mkdocs.yml
	@echo 'build/site/index.html is its first page'
else ifeq ($(NAME),screenshots)
	@$(BIN)/python -m tests.docs.screenshots --minutes $(or $(MINUTES),12)
else
	$(unknown)
endif

bench: $(if $(filter full,$(NAME)),$(BENCH_STAMP),$(TEST_STAMP)) $(KERNEL_STAMP)
ifeq ($(NAME),)
	@$(BIN)/python -m benchmarks
else ifeq ($(NAME),full)
	@set -e; for part in 'beside --runs 3' 'ingest,drain --runs 3 --kernel both' look restore,footprint,mixed,lateness \
		values,kill recovery matrix soak pipeline; do $(BIN)/python -m benchmarks --full --save --only $$part; done
	@$(BIN)/python -m benchmarks.page
else
	$(unknown)
endif

chaos: $(TEST_STAMP)
ifeq ($(NAME),)
	@$(BIN)/python -m tests.chaos --save
else
	@$(BIN)/python -m tests.long_runs chaos $(NAME)
endif

build: $(if $(NAME),$(if $(filter-out kernel,$(NAME)),$(RUN_STAMP),.venv/bin/python),$(WHEELS_STAMP)) $(if $(filter lock,$(NAME)),$(LOCK_STAMP))
ifeq ($(NAME),)
	@$(BIN)/python deploy/wheels.py $(TARGETS:%=--target %)
else ifeq ($(NAME),kernel)
	cd kernel && cargo build --quiet --release --locked
	@cd kernel && install "$${CARGO_TARGET_DIR:-target}/release/libpunctual_kernel.so" \
		"$$(../$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/punctual_kernel.abi3.so"
	@$(BIN)/python -c 'import punctual_kernel'
else ifeq ($(NAME),lock)
	$(COMPILE) --upgrade pyproject.toml --extra oidc --group build --output-file requirements/run.txt
	$(COMPILE) --upgrade pyproject.toml --extra dev --extra oidc --group build --constraint requirements/run.txt \
		--output-file requirements/dev.txt
	$(COMPILE) --upgrade pyproject.toml --extra dev --extra pipeline --group build --constraint requirements/dev.txt \
		--output-file requirements/pipeline.txt
	$(COMPILE) --upgrade pyproject.toml --extra pipeline $(TEST_EXTRAS) --group build \
		--constraint requirements/pipeline.txt --output-file requirements/test.txt
	$(COMPILE) --upgrade pyproject.toml --extra pipeline $(TEST_EXTRAS) --extra bench --group build \
		--constraint requirements/test.txt --output-file requirements/bench.txt
	$(COMPILE) --upgrade pyproject.toml $(CHECK_EXTRAS) --group build --constraint requirements/test.txt \
		--output-file requirements/check.txt
	$(COMPILE) --upgrade --group wheels --output-file requirements/wheels.txt
	$(COMPILE) --upgrade --group lock --output-file requirements/lock.txt
else
	$(unknown)
endif

clean:
	rm -rf .venv kernel/target .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "Creating .venv with $$($$python --version)"; \
			exec $$python -m venv .venv; \
		fi; \
	done; \
	echo 'No Python 3.11 or newer was found. Install one, or name it: make install PYTHON=/path/to/python3' >&2; \
	exit 1

$(RUN_STAMP): requirements/dev.txt pyproject.toml punctual/pyproject.toml | .venv/bin/python
	@echo 'Installing what running needs into .venv (the first time this takes a minute)'
	@$(PIP) --require-hashes --requirement requirements/dev.txt
	@$(INSTALL_PROJECT)
	@touch $@

# Neither Kafka and a Java, nor Spark, nor a browser. `make test` has all of it.
$(CHECK_STAMP): requirements/check.txt pyproject.toml punctual/pyproject.toml | .venv/bin/python
	@echo 'Installing what the fast tests need into .venv'
	@$(PIP) --require-hashes --requirement requirements/check.txt
	@$(INSTALL_PROJECT)
	@touch $@

# What is usual is done in Rust where that can be built, which takes half a minute, and in Python where it cannot.
$(KERNEL_STAMP): $(KERNEL_SOURCES) | .venv/bin/python
	@mkdir -p build
	@rm -f .venv/lib/python*/site-packages/punctual_kernel.*.so
	@timeout 300 $(MAKE) --no-print-directory build NAME=kernel >build/kernel.log 2>&1 || \
		echo 'The native extension is not built (see build/kernel.log): Python is used instead'
	@touch $@

# PySpark is built here, without isolation too, by the setuptools of the first lock.
$(PIPELINE_STAMP): requirements/pipeline.txt $(RUN_STAMP)
	@echo 'Installing Spark into .venv (430 MB)'
	@$(PIP) --no-build-isolation --require-hashes --requirement requirements/pipeline.txt
	@touch $@

$(TEST_STAMP): requirements/test.txt $(RUN_STAMP)
	@echo 'Installing what the tests need into .venv, Spark among it (430 MB)'
	@$(PIP) --no-build-isolation --require-hashes --requirement requirements/test.txt
	@touch $@

$(BENCH_STAMP): requirements/bench.txt $(RUN_STAMP)
	@echo 'Installing what the benchmarks need into .venv'
	@$(PIP) --no-build-isolation --require-hashes --requirement requirements/bench.txt
	@touch $@

$(WHEELS_STAMP): requirements/wheels.txt $(RUN_STAMP)
	@echo 'Installing what compiles for other systems into .venv (100 MB)'
	@$(PIP) --require-hashes --requirement requirements/wheels.txt
	@touch $@

$(LOCK_STAMP): requirements/lock.txt $(RUN_STAMP)
	@$(PIP) --require-hashes --requirement requirements/lock.txt
	@touch $@
