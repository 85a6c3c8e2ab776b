# Every target does its own set-up: python3 (3.11+), make, Java 17+ and the package registries are all it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# A file's tests share fixtures and stay together; longest files first (tests/conftest.py)
SIDE_BY_SIDE := -n 2 --dist loadfile --no-loadscope-reorder
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
# Workers and slots are many processes: where none may keep compiled modules, each compiles all of them at its start
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install quickstart check lint types layers unit test bench chaos mixed lock docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

install: $(STAMP)  ## make .venv with the locked dependencies and .venv/bin/connect

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock, once: half a minute and 500 MB" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@awk '/^uv==/{keep=1} keep{print} keep&&!/\\$$/{exit}' requirements.lock > $(VENV)/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(VENV)/uv.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --compile-bytecode -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

quickstart: install  ## the main job: a file through Spark into Kafka and into a second file
	@$(BIN)/connect quickstart

check: lint types layers  ## lint, format, strict types, import layers: half a minute; `make test` has all the tests

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

layers: install
	$(BIN)/lint-imports --no-logo

unit: install  ## unit tests alone: within a minute on two quiet cores
	$(BIN)/pytest -q $(SIDE_BY_SIDE) tests/unit

test: install  ## all tests, on a real broker, real Spark and real Java Connect
	KCONNECT_REQUIRE=broker,java,spark $(BIN)/pytest -q $(SIDE_BY_SIDE) tests

bench: install  ## records per second, beside Java Kafka Connect in the same run; BENCH="--cases cold-start" picks
	$(BIN)/python tests/bench/run.py $(BENCH)

chaos: install  ## three workers killed and frozen for ten minutes, then counted; CHAOS="--exactly-once" picks
	$(BIN)/python tests/chaos/run.py $(CHAOS)

mixed: install  ## two Java workers and two of ours in one group: each killed in turn, then Java rolled out
	KCONNECT_MIXED=long $(BIN)/pytest -q tests/interop/test_mixed_cluster.py

docs: install  ## make docs/cli.md, docs/configuration.md and docs/metrics.md anew
	$(BIN)/python -m kconnect_cli.reference > docs/cli.md
	$(BIN)/python -m kconnect_cli.reference --configuration > docs/configuration.md
	$(BIN)/python -m kconnect.metrics.document > docs/metrics.md

lock: install  ## resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile --quiet --upgrade pyproject.toml --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header -o requirements.lock

clean:  ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench-results dist build
