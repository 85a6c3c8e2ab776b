# Every target does its own set-up: python3 (3.11+), make, Java 17+ and the package registries are all it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
# Spark comes as sources only: building it would leave 1.9 GB in uv's cache, and as much again with each .venv where
# the registry's answers must not be cached. So it is built in a cache of its own, which goes.
UV_INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
# A file's tests share fixtures and stay together; longest files first (tests/conftest.py). Four processes on two
# cores: tests with real processes wait for them now and then, and leave a core idle.
SIDE_BY_SIDE := --dist loadfile --no-loadscope-reorder
# What is long and rare, by tests/kit/parts.py: each is a target, test-NAME
PARTS := browser chaos clusters debezium fuzz images interop mirror pages queries
KIT := PYTHONPATH=$(CURDIR)/tests $(BIN)/python
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
# Workers and slots are many processes: where none may keep compiled modules, each compiles all of them at its start
unexport PYTHONDONTWRITEBYTECODE

LOCK := $(BIN)/uv pip compile --quiet pyproject.toml --universal --python-version 3.11 --generate-hashes --no-annotate --no-header

.DEFAULT_GOAL := help
.PHONY: help install dev quickstart check lint types layers unit browser screenshots recordings test test-all archives $(PARTS:%=test-%) differential roundtrips day bench spark-matrix chaos outages databases debezium mixed mariadb queries queries-tables tables pooled fuzz mutations lock docs reference site clean java-plugins java-parity mirror

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

install: $(STAMP)  ## make .venv with the locked dependencies and .venv/bin/connect
	@$(BIN)/python -m kconnect.spark.make_archive || true
	@$(BIN)/python -m kconnect.java.plugins.make_archive || true

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock, once: a minute and 900 MB (2.7 GB for a moment, while Spark is built)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@awk '/^uv==/{keep=1} keep{print} keep&&!/\\$$/{exit}' requirements-dev.lock > $(VENV)/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(VENV)/uv.lock
	@awk '/^pyspark==/{keep=1} keep{print} keep&&!/\\$$/{exit}' requirements.lock > $(VENV)/spark.lock
	@$(UV_INSTALL) --cache-dir $(VENV)/uv-cache --no-deps --require-hashes -r $(VENV)/spark.lock; rm -rf $(VENV)/uv-cache
	@$(UV_INSTALL) --require-hashes --compile-bytecode -r requirements.lock
	@$(UV_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): $(STAMP) requirements-dev.lock
	@echo "Adding what checks and tests need, from requirements-dev.lock, once: 250 MB more" >&2
	@$(UV_INSTALL) --require-hashes --compile-bytecode -r requirements-dev.lock
	@touch $@

dev: $(DEV)  ## what install makes, and pytest, mypy, ruff

quickstart: install  ## the main job: a file through Spark into Kafka and into a second file
	@$(BIN)/connect quickstart

check: lint types layers  ## lint, format, strict types, import layers: half a minute; `make test` has all the tests

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(KIT) -m kit.wording

types: $(DEV)
	$(BIN)/mypy

layers: $(DEV)
	$(BIN)/lint-imports --no-logo

unit: $(DEV)  ## unit tests alone, with a fifth of the random examples: two minutes on two cores
	KCONNECT_EXAMPLES_PERCENT=20 $(BIN)/pytest -q -n 4 $(SIDE_BY_SIDE) tests/unit

# What tests need of Debian: any program of $(1), from the package $(2); $(3) is what needs it
define from_debian
	@for name in $(1); do PATH=$$PATH:/usr/sbin command -v $$name >/dev/null && exit 0; done; \
	  echo "Installing $(2), for $(3)" >&2; as_root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$as_root apt-get update -qq && $$as_root apt-get install -y -qq --no-install-recommends $(2) >/dev/null || { \
	  echo "There is no $(firstword $(1)), for $(3), and apt-get could not install it. Install it by hand: $(2)" >&2; exit 1; }
endef

browser:  ## Chromium, systemd-analyze and PgBouncer, by apt-get where they are missing: tests of the console, of deploy/ and of poolers
	$(call from_debian,chromium chromium-browser google-chrome,chromium,tests of the web console)
	$(call from_debian,systemd-analyze,systemd,tests of deploy/systemd)
	$(call from_debian,pgbouncer,pgbouncer,tests of SqlSink and SqlSource through a pooler)

screenshots: $(DEV) browser  ## pictures of the web console in docs/images, light and dark
	$(KIT) -W ignore -m kit.screenshots

recordings: $(DEV) install  ## a terminal that types docs/repair.md, or the quickstart, as SVG in docs/images; RECORDINGS="repair"
	$(KIT) -W ignore -m kit.recordings $(RECORDINGS)

RUN_TESTS = KCONNECT_REQUIRE=broker,java,spark,browser,pooler $(BIN)/pytest -q -n 4 $(SIDE_BY_SIDE)

test: archives  ## tests on a real broker, Spark and Java Connect: all but the parts that the change does not reach; BASE=
	$(RUN_TESTS) --parts auto --parts-base "$(BASE)" tests

test-all: archives  ## every test, of every part
	$(RUN_TESTS) --parts all tests

$(PARTS:%=test-%): test-%: archives  ## one part: what is long and rare, see tests/README.md
	$(RUN_TESTS) --parts $* tests

archives: $(DEV) install browser
	@$(BIN)/python -m kconnect.java.devbroker.make_archive || true
	@$(BIN)/python -m kconnect.java.plugins.make_archive || true

differential: $(DEV)  ## a million random records, values and texts each, through Java's classes and ours; CASES=, SEED=
	KCONNECT_RANDOM_CASES=$(or $(CASES),1000000) KCONNECT_RANDOM_SEED=$(or $(SEED),1) $(BIN)/pytest -q -n 2 --timeout 3600 \
	  tests/integration/builtin/test_random_json_java.py tests/integration/builtin/test_random_transforms_java.py

roundtrips: $(DEV) install  ## a million random values of declared types through every room: converters, tables, databases, Spark; CASES=, SEED=
	KCONNECT_ROUND_TRIPS=$(or $(CASES),1000000) KCONNECT_ROUND_TRIPS_SEED=$(or $(SEED),1) $(BIN)/pytest -q -s -n 0 --timeout 14400 \
	  tests/unit/builtin/types/test_round_trips.py tests/integration/builtin/test_round_trips_outside.py

day: $(DEV) install  ## a table with every kind of column through four converters into six kinds of sinks, altered and killed; ROWS=
	KCONNECT_DAY_ROWS=$(or $(ROWS),10000) $(BIN)/pytest -q -s -p no:xdist tests/system/builtin/test_day.py

bench: $(DEV) install  ## records per second, beside Java Kafka Connect in the same run; BENCH="--cases cold-start" picks
	$(BIN)/python tests/bench/run.py $(BENCH)

spark-matrix: $(DEV)  ## which formats work on Spark 4.1, 4.2, 4.3, each in an environment of its own; MATRIX="4.2.0" picks
	$(KIT) -m kit.matrix.run $(MATRIX)

chaos: $(DEV) install  ## three workers killed and frozen for ten minutes, then counted; CHAOS="--exactly-once" picks
	$(KIT) -m kit.chaos.run $(CHAOS)

outages: $(DEV) install  ## thirty outages in a row, and what everybody says held against what flows; OUTAGES="--seed 7"
	$(KIT) -m kit.outages.run $(OUTAGES)

tables: $(DEV) install  ## a million records into tables of three formats, killed every few seconds, three times; SEEDS=, RECORDS=
	KCONNECT_TABLES=long KCONNECT_TABLES_SEEDS="$(or $(SEEDS),1 2 3)" KCONNECT_TABLES_RECORDS=$(or $(RECORDS),1000000) \
	  $(BIN)/pytest -q -s tests/system/builtin/test_tables_killed.py -k million

pooled: $(DEV) install browser  ## a million records by three sinks through PgBouncer, killed every few seconds, twice; SEEDS=, RECORDS=
	KCONNECT_POOLED=long KCONNECT_POOLED_SEEDS="$(or $(SEEDS),1 2)" KCONNECT_POOLED_RECORDS=$(or $(RECORDS),1000000) \
	  $(BIN)/pytest -q -s tests/system/builtin/test_pooled_sinks_killed.py -k million

mariadb: $(DEV)  ## SqlSource and SqlSink on a real MariaDB, which apt-get installs
	$(call from_debian,mariadbd,mariadb-server,tests of MariaDB)
	KCONNECT_MARIADB=yes $(BIN)/pytest -q tests/integration/builtin/test_sql_mariadb*.py

databases: $(DEV) install  ## a million records exactly once into PostgreSQL (by a pooler), MariaDB and SQLite, killed every few seconds; SEED=
	$(call from_debian,mariadbd,mariadb-server,tests of MariaDB)
	$(call from_debian,pgbouncer,pgbouncer,tests of poolers)
	KCONNECT_MARIADB=yes KCONNECT_DATABASES=long KCONNECT_DATABASES_SEED=$(or $(SEED),1) \
	  $(BIN)/pytest -q -s tests/system/builtin/test_sql_killed.py

queries: $(DEV) install  ## queries through kills: a million rows by SparkSource, frozen workers, a Spark cluster; SEEDS=, RECORDS=
	KCONNECT_QUERIES=long KCONNECT_QUERIES_SEEDS="$(or $(SEEDS),1 2 3)" KCONNECT_QUERIES_RECORDS=$(or $(RECORDS),1000000) \
	  $(BIN)/pytest -q -s tests/system/spark/test_spark_queries.py tests/system/spark/test_spark_cluster_queries.py \
	  tests/system/spark/test_spark_sources_killed.py

# The jars of Delta Lake and Iceberg run on older Sparks than the one that is installed: an environment for each
queries-tables: $(DEV) install  ## SparkSink into Delta and Iceberg, on the Sparks of their jars, through kills of all kinds; SEEDS=, RECORDS=, SPARK=, ONLY=
	@for version in $(or $(SPARK),4.1.1 4.2.0); do \
	  $(KIT) -m kit.matrix.environment $$version .venv-spark-$$version && \
	  PYSPARK_PYTHON=$(CURDIR)/.venv-spark-$$version/bin/python KCONNECT_IVY=$(CURDIR)/.venv-spark-$$version/ivy \
	  KCONNECT_QUERIES_TABLES=long KCONNECT_TABLES_SEEDS="$(or $(SEEDS),1 2 3)" KCONNECT_TABLES_RECORDS=$(or $(RECORDS),1000000) \
	  .venv-spark-$$version/bin/pytest -q -s -W ignore::pytest.PytestUnraisableExceptionWarning tests/integration/spark/test_query_checkpoint.py \
	    tests/integration/spark/test_query_batches.py tests/system/spark/test_query_tables_killed.py -k "$(ONLY)" || exit 1; \
	done

debezium: $(DEV) install  ## 100,000 changes of PostgreSQL through Debezium while slot, JVM, worker and database die; SEED=, CHANGES=
	KCONNECT_DEBEZIUM=long KCONNECT_DEBEZIUM_SEEDS="$(or $(SEED),1 2 3)" KCONNECT_DEBEZIUM_CHANGES=$(or $(CHANGES),100000) \
	  $(BIN)/pytest -q -s tests/system/java/plugins/test_debezium_killed.py -k hundred

java-plugins: $(DEV) install  ## plugins of others, unmodified, from Maven: Camel, MongoDB, Apicurio, Kafka's test tools and tests
	KCONNECT_JAVA_PLUGINS=long $(BIN)/pytest -q tests/integration/java/plugins/test_java_third_party.py \
	  tests/system/java/plugins/test_java_plugins_that_block.py

java-parity: $(DEV) install  ## plugins of others beside Java Connect, all compared: the table of docs/java-plugins.md; PARITY="transforms --write"
	$(call from_debian,mariadbd,mariadb-server,Debezium of MariaDB)
	$(KIT) -m kit.parity.run $(PARITY)

mirror: $(DEV) install  ## MirrorMaker 2 beside Java's in one group, exactly once through kills, a failover, TLS and SASL
	KCONNECT_MIRROR=long $(BIN)/pytest -q tests/system/worker/mirror/test_mirror_with_java.py tests/system/worker/mirror/test_mirror_clusters.py

mixed: $(DEV) install  ## two Java workers and two of ours in one group: each killed in turn, then Java rolled out
	KCONNECT_MIXED=long $(BIN)/pytest -q tests/system/runtime/herder/test_mixed_cluster.py

fuzz: $(DEV)  ## schemathesis on REST for ten minutes with a new seed, which a failure names; FUZZ_S=, SEED=
	KCONNECT_FUZZ_S=$(or $(FUZZ_S),600) KCONNECT_FUZZ_SEED=$(or $(SEED),$$(date +%s)) KCONNECT_FUZZ_ANEW=1 \
	  $(BIN)/pytest -q tests/system/runtime/rest/test_rest_schema_fuzz.py tests/integration/runtime/rest/test_rest_fuzz.py

docs: reference site  ## reference pages from the code, then a site of docs/ in build/site: open build/site/index.html

reference: $(DEV)  ## make docs/cli.md, configuration.md, connectors.md and metrics.md anew
	$(BIN)/python -m kconnect_cli.reference > docs/cli.md
	$(BIN)/python -m kconnect_cli.reference --configuration > docs/configuration.md
	$(BIN)/python -m kconnect_cli.reference --connectors > docs/connectors.md
	$(BIN)/python -m kconnect.runtime.metrics.document > docs/metrics.md

# Sphinx has an environment of its own: 100 MB that nobody else needs
DOCS_VENV := .venv-docs
$(DOCS_VENV)/.installed: docs/site/requirements.lock
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

site: $(DOCS_VENV)/.installed  ## the site alone, to SITE= instead of build/site; a warning is an error
	$(DOCS_VENV)/bin/sphinx-build --quiet -W --keep-going -c docs/site -d build/doctrees docs $(or $(SITE),build/site)

mutations: $(DEV)  ## a hundred small faults put into the product, one at a time: which tests see them; MUTATIONS="--seed 2"
	$(KIT) -m kit.mutations $(MUTATIONS)

lock: $(DEV)  ## resolve the dependencies anew into requirements.lock, requirements-dev.lock and docs/site/requirements.lock
	$(LOCK) --upgrade --all-extras --group dev -o requirements-dev.lock
	$(LOCK) --constraints requirements-dev.lock --group build -o requirements.lock
	$(subst pyproject.toml,--group pyproject.toml:docs,$(LOCK)) --upgrade -o docs/site/requirements.lock

clean:  ## remove what the targets made
	rm -rf $(VENV) $(DOCS_VENV) .venv-spark-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench-results dist build
