# `make install` creates .venv with what running needs; the other targets bring what they need themselves.

BIN := .venv/bin
RUN_STAMP := .venv/.run-installed
TEST_STAMP := .venv/.test-installed
PIPELINE_STAMP := .venv/.pipeline-installed
BENCH_STAMP := .venv/.bench-installed
WHEELS_STAMP := .venv/.wheels-installed
LOCK_STAMP := .venv/.lock-installed
KERNEL_STAMP := .venv/.kernel-tried
KERNEL_SOURCES := $(wildcard kernel/Cargo.* kernel/src/*.rs kernel/src/*/*.rs)
SOURCES := $(wildcard app punctual tables pipeline tests benchmarks)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TEST_EXTRAS := --extra oidc --extra otel --extra docs --extra test
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-package punctual-kafka --no-emit-index-url --no-emit-find-links

.DEFAULT_GOAL := help
.PHONY: help install install-pipeline kernel run example demo-pipeline test clients lint check docs newcomer simulate rates format kafka topic bench bench-full chaos \
	chaos-queue chaos-gateway chaos-pipeline chaos-cold chaos-repartition debounce neighbours screenshots console-million wheels lock clean

help:
	@echo 'make install  create .venv with what running needs'
	@echo 'make install-pipeline  the same, and Spark for `python -m pipeline`'
	@echo 'make kernel   build the kernel in Rust, which `make install` goes without where there is no cargo'
	@echo 'make run      see it work: a broker, a worker and messages that fall due (KAFKA_PORT)'
	@echo 'make example  run one of docs/examples, with all that it needs (NAME)'
	@echo 'make kafka    a development broker in the foreground (KAFKA_PORT, KAFKA_DATA)'
	@echo 'make topic    create the topic NAME, to deliver to'
	@echo 'make demo-pipeline  a million messages through Spark and back: bulk, cold tier, delivery, account, report'
	@echo 'make test     the whole test suite, on a real broker'
	@echo 'make clients  have other systems'"'"' own clients ask for messages, with Go and a JDK (fetches them; RECORD=1 records them)'
	@echo 'make lint     format, lint, types and layers'
	@echo 'make check    the same, and the fast tests'
	@echo 'make docs     build the documentation as a site, into build/site'
	@echo 'make newcomer README as a newcomer follows it, from a clone to the first message, with the seconds of each step'
	@echo 'make simulate run many seeds of the simulation (SEEDS, FIRST)'
	@echo 'make rates    three destinations with caps and a backlog of 100,000, for two minutes with each guarantee'
	@echo 'make format   format the code'
	@echo 'make bench    measure (see docs/how-to/measure.md)'
	@echo 'make bench-full  measure all figures of docs/explanation/benchmarks.md, also of other systems, and write them (two and a half hours)'
	@echo 'make chaos    kill, stop and cut off everything, and count what comes out (an hour and more)'
	@echo 'make chaos-gateway  500 messages a second through a gateway, with Kafka stopped, and both killed (four minutes)'
	@echo 'make chaos-queue  an acknowledged queue whose consumers and workers are killed (ten minutes)'
	@echo 'make neighbours  ten minutes of 100 topics and URLs, some dead, slow or poisoned, beside the lateness of the rest (NEIGHBOURS_S)'
	@echo 'make chaos-pipeline  ten cuts at each point of what Spark writes, and ten kills of each command (half an hour)'
	@echo 'make chaos-cold  20,000 ids cancelled and asked for anew while park and promote are killed (COLD_IDS; half an hour)'
	@echo 'make chaos-repartition  a million messages from 16 to 24 partitions, the command killed six times (REPARTITION_MESSAGES, REPARTITION_KILLS)'
	@echo 'make debounce a thousand ids pushed back for a minute, through a crash and a rebalance'
	@echo 'make screenshots  run a demonstration with traffic, and save what the documentation shows of its console (MINUTES, CHROMIUM)'
	@echo 'make console-million  drive the console in a browser above a million pending messages, each page saved to build/console (CONSOLE_PENDING, SCREENSHOTS)'
	@echo 'make wheels   build what a release publishes into dist/: both distributions, and the kernel for Linux and macOS (TARGETS)'
	@echo 'make lock     choose new versions of all dependencies'
	@echo 'make clean    remove .venv and caches; data stays'

install: $(RUN_STAMP) $(KERNEL_STAMP)

install-pipeline: $(PIPELINE_STAMP)

kernel: $(RUN_STAMP)
	cd kernel && cargo build --quiet --release --locked
	@cd kernel && install "$${CARGO_TARGET_DIR:-target}/release/libpunctual_kernel.so" \
		"$$(../$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/punctual_kernel.abi3.so"
	@$(BIN)/python -c 'import punctual_kernel'

run: $(RUN_STAMP)
	@$(BIN)/python -m app.dev.demo --kafka-port $(or $(KAFKA_PORT),9092)

example: $(RUN_STAMP)
	@$(BIN)/python -m app.dev.demo.example $(NAME)

kafka: $(RUN_STAMP)
	@$(BIN)/python -m app.dev.broker

topic: $(RUN_STAMP)
	@$(BIN)/python -m app.dev.broker.topic $(NAME)

demo-pipeline: $(PIPELINE_STAMP)
	@$(BIN)/python -m pipeline.demo

test: $(TEST_STAMP) $(KERNEL_STAMP)
	@$(BIN)/python -m tests.harness.class_archives kafka 2>/dev/null || true # without one, JVMs take longer
	@$(BIN)/python -m tests.harness.class_archives spark 2>/dev/null & $(BIN)/python -m pytest -n 4

clients: $(TEST_STAMP)
	@CLIENTS=1 $(BIN)/python -m pytest tests/integration/clients

lint: $(TEST_STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint $(KERNEL_STAMP)
	$(BIN)/python -m pytest -q -n 2 -m 'not slow and not kafka'

docs: $(TEST_STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --config-file docs/site/mkdocs.yml
	@echo 'build/site/index.html is its first page'

newcomer: $(TEST_STAMP)
	@$(BIN)/python -m tests.docs.newcomer

simulate: $(TEST_STAMP)
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),100000) --first $(or $(FIRST),0)

rates: $(TEST_STAMP)
	@RATES_BACKLOG=100000 RATES_SECONDS=60 RATES_CAPS=500,200,300 RATES_LATER_MS=40 \
		$(BIN)/python -m pytest -q tests/integration/test_rates.py -o log_cli=true -o log_cli_level=INFO

format: $(TEST_STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

debounce: $(TEST_STAMP)
	@PUNCTUAL_LONG=1 $(BIN)/python -m pytest -n 0 --log-cli-level=INFO tests/integration/test_debounce.py

bench: $(TEST_STAMP) $(KERNEL_STAMP)
	@$(BIN)/python -m benchmarks

bench-full: $(BENCH_STAMP) $(KERNEL_STAMP)
	@set -e; for part in 'beside --runs 3' 'ingest,drain --runs 3 --kernel both' look restore,footprint,mixed,lateness \
		values,kill recovery matrix soak pipeline; do $(BIN)/python -m benchmarks --full --save --only $$part; done
	@$(BIN)/python -m benchmarks.page

chaos: $(TEST_STAMP)
	@$(BIN)/python -m tests.chaos --save

chaos-gateway: $(TEST_STAMP)
	@GATEWAY_CHAOS=1 $(BIN)/python -m pytest -q -s tests/integration/test_gateway_faults.py

chaos-queue: $(TEST_STAMP)
	@$(BIN)/python -m tests.chaos.queue

chaos-pipeline: $(TEST_STAMP)
	@KILLS=10 $(BIN)/python -m pytest -q tests/pipeline/test_kills.py tests/pipeline/test_attacks.py

chaos-cold: $(TEST_STAMP)
	@COLD_IDS=$(or $(COLD_IDS),20000) $(BIN)/python -m pytest -q -n 0 --log-cli-level=INFO tests/pipeline/test_cold_of_worker.py

chaos-repartition: $(TEST_STAMP)
	@REPARTITION_MESSAGES=$(or $(REPARTITION_MESSAGES),1000000) REPARTITION_KILLS=$(or $(REPARTITION_KILLS),6) \
		$(BIN)/python -m pytest -q -n 0 --log-cli-level=INFO tests/chaos/test_repartition.py

neighbours: $(TEST_STAMP)
	@NEIGHBOURS_S=$(or $(NEIGHBOURS_S),600) $(BIN)/python -m pytest -q -s tests/integration/test_http_destinations.py \
		-k delay_no_other

screenshots: $(TEST_STAMP)
	@$(BIN)/python -m tests.docs.screenshots --minutes $(or $(MINUTES),12)

console-million: $(TEST_STAMP)
	@CONSOLE_PENDING=$(or $(CONSOLE_PENDING),1000000) SCREENSHOTS=$(or $(SCREENSHOTS),build/console) \
		$(BIN)/python -m pytest -q -n 0 tests/integration/test_console.py

wheels: $(WHEELS_STAMP)
	@$(BIN)/python deploy/wheels.py $(TARGETS:%=--target %)

lock: $(LOCK_STAMP)
	$(COMPILE) --upgrade pyproject.toml --extra oidc --group build --output-file requirements/run.txt
	$(COMPILE) --upgrade pyproject.toml --extra pipeline --group build --constraint requirements/run.txt \
		--output-file requirements/pipeline.txt
	$(COMPILE) --upgrade pyproject.toml --extra pipeline $(TEST_EXTRAS) --group build \
		--constraint requirements/pipeline.txt --output-file requirements/test.txt
	$(COMPILE) --upgrade pyproject.toml --extra pipeline $(TEST_EXTRAS) --extra bench --group build \
		--constraint requirements/test.txt --output-file requirements/bench.txt
	$(COMPILE) --upgrade --group wheels --output-file requirements/wheels.txt
	$(COMPILE) --upgrade --group lock --output-file requirements/lock.txt

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

# The project itself is built without isolation, by the hatchling of the lock: nothing unpinned is fetched.
$(RUN_STAMP): requirements/run.txt pyproject.toml punctual/pyproject.toml | .venv/bin/python
	@echo 'Installing what running needs into .venv (the first time this takes a minute)'
	@$(PIP) --require-hashes --requirement requirements/run.txt
	@$(PIP) --no-deps --no-build-isolation --editable ./punctual --editable .
	@touch $@

# What is usual is done in Rust where that can be built, which takes half a minute, and in Python where it cannot.
$(KERNEL_STAMP): $(KERNEL_SOURCES) | $(RUN_STAMP)
	@mkdir -p build
	@rm -f .venv/lib/python*/site-packages/punctual_kernel.*.so
	@timeout 300 $(MAKE) --no-print-directory kernel >build/kernel.log 2>&1 || \
		echo 'The kernel is not built (build/kernel.log says why): Python does what it would do'
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
