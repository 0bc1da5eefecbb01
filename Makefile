# The words that people and CI share; `make help` lists them.
# Needs make and Python >= 3.11 with its venv module, nothing else.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The newest of these that runs and is new enough; say PYTHON=... for another.
PYTHON ?= $(shell for candidate in python3.13 python3.12 python3.11 python3; do \
	if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then echo $$candidate; break; fi; done)

DATA ?= data
# The demonstration has a folder of its own, unless one is named.
DEMO_DATA = $(if $(filter file,$(origin DATA)),data-demo,$(DATA))
LISTEN ?= 127.0.0.1:8080
# 0 leaves Spark and its Java (0.7 GB) out: everything but the reports.
ANALYTICS ?= 1
# The tests are shared between so many processes; each has a PostgreSQL, a Spark and a browser.
WORKERS ?= 3
# 1 measures what `make test` reaches and shows it at the end, for about half as much time again.
COVERAGE ?= 0

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes
RUN := $(VENV)/.run.stamp
SPARK := $(VENV)/.spark.stamp
DEV := $(VENV)/.dev.stamp
DEMO := $(VENV)/.demo.stamp
# Its lock file pins the builds for Linux; elsewhere, and without Node, it is left out.
BIOME := tools/web/node_modules/.bin/biome
# What fails beside others runs once more, alone (ADR 37).
SHARED := $(BIN)/python -m tools.run_tests $(WORKERS)
# Temporary files of tests lie in memory; here on the disk, as those of a server do (ADR 20).
ON_DISK := TMPDIR="$${TMPDIR:-/tmp}"
# The first run of `make test` begins the count anew, the second adds to it.
MEASURED := $(if $(filter 1,$(COVERAGE)),--cov --cov-report=)

# The files of these few tests: to collect all others takes each worker half a minute.
GIVE_WAY = $(shell grep --recursive --files-with-matches --include='*.py' mark.gives_way tests)

.PHONY: help run demo packages node programs test quick check format attack docs bench fuzz soak lock clean

help: ## List these words
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "Variables: DATA=$(DATA) LISTEN=$(LISTEN) ANALYTICS=$(ANALYTICS) WORKERS=$(WORKERS) COVERAGE=$(COVERAGE) PYTHON=$(PYTHON)"

run: $(RUN) $(if $(filter 0,$(ANALYTICS)),,$(SPARK)) ## Start KiteMQ and its console (DATA=folder, LISTEN=host:port, ANALYTICS=0)
	@echo "Console: http://$(LISTEN)/   API: http://$(LISTEN)/docs/api   Stop: Ctrl-C"
	@exec $(BIN)/kitemq serve --data '$(DATA)' --listen '$(LISTEN)'

demo: $(DEMO) $(if $(filter 0,$(ANALYTICS)),,$(SPARK)) ## Start KiteMQ with real flights as messages, to look around in
	$(BIN)/python -m examples.flights --data '$(DEMO_DATA)' --listen '$(LISTEN)'

packages: $(DEV) $(DEMO)

node: $(DEV)
	sh tools/ensure_node.sh tools/web tests/oidc tests/clients tests/remoting/node

# What tests need besides Python's packages. CI installs it while `make check` runs (.ci/run).
programs: packages node
	sh tools/ensure_chromium.sh
	sh tools/ensure_firefox.sh
	sh tools/ensure_clients.sh $(BIN)/python
	sh tools/ensure_remoting_clients.sh $(BIN)/python
	sh tools/ensure_postgres.sh
	sh tools/ensure_rocketmq.sh

test: programs ## Run every test, browser and crash tests included (COVERAGE=1 shows what they reach)
	$(SHARED) $(MEASURED) -m 'not gives_way and not attack'
	$(SHARED) $(if $(MEASURED),$(MEASURED) --cov-append) -m gives_way $(GIVE_WAY)
	$(ON_DISK) $(SHARED) -m attack tests/attack
	$(ON_DISK) KITEMQ_KERNEL=pure $(SHARED) -m 'not gives_way and not attack' tests/engine/store tests/app/ws \
		tests/simulation tests/crash/test_damage.py tests/crash/test_kill.py tests/crash/test_small_disk.py
	$(if $(MEASURED),$(BIN)/coverage report)

# Tests that need Spark, a browser, another database, a killed server or many cases stay out.
QUICK = not (spark or browser or crash or slow or databases or wide or attack or gives_way or needs or before_cluster or apache)

quick: $(DEV) ## Run the tests of daily work, which are to take five minutes on two idle cores
	$(SHARED) -m '$(QUICK)'

check: $(DEV) ## Lint, format, types, import contracts and the documentation's claims
	sh tools/ensure_node.sh tools/web
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/djlint app/ui --lint --quiet
	if $(BIOME) --version >/dev/null 2>&1; then $(BIOME) check --error-on-warnings app; fi
	$(BIN)/python -m pytest tests/docs -m 'not slow'

format: $(DEV) ## Format the code, CSS and JavaScript, and sort imports
	sh tools/ensure_node.sh tools/web
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .
	if $(BIOME) --version >/dev/null 2>&1; then $(BIOME) format --write app; fi

docs: $(DEV) ## Make the documentation a site with search, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "To read it: $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000"

bench: $(DEV) ## Measure speed: figures on standard output (see bench/)
	$(BIN)/python -m bench

fuzz: $(DEV) ## MINUTES=10 of inputs that nobody foresaw, for every decoder in turn
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10)

attack: $(DEV) ## Two minutes of each attack, and 200 ms for 99 of 100 calls of others (quiet machine)
	ATTACK_SECONDS=120 ATTACK_P99_MS=200 $(BIN)/python -m pytest -m attack -rP

soak: $(DEV) ## MINUTES=10 of simulated crashes, then as many (or KILLS=1000) of a killed server
	$(BIN)/python -m tests.simulation.soak --minutes $(or $(MINUTES),10)
	REMOTING_FRAMES=100000 $(BIN)/python -m pytest -q tests/remoting/test_mutated_frames.py
	-sh tools/ensure_clients.sh $(BIN)/python python
	$(BIN)/python -m bench.soak --kills $(or $(KILLS),0) --seconds $$((60 * $(or $(MINUTES),10)))

# The SDK is of this repository; what it needs is locked, itself is not. Extras stay in the lock
# files: a pip that finds `coverage==7` there where `coverage[toml]` is needed looks for a newer one.
COMPILE_ANY = $(BIN)/uv pip compile --quiet --no-strip-extras --universal --generate-hashes --no-emit-package kitemq \
	--no-emit-index-url --no-emit-find-links --no-header --python-version 3.11 $(UPGRADE)
COMPILE = $(COMPILE_ANY) pyproject.toml

lock: $(DEV) ## Write the lock files anew (UPGRADE=--upgrade for newer versions)
	$(COMPILE) --extra build --extra avro --output-file requirements.lock
	$(COMPILE) --extra build --extra analytics --constraint requirements.lock \
		--output-file requirements-analytics.lock
	$(COMPILE) --extra build --extra dev --constraint requirements-analytics.lock \
		--output-file requirements-dev.lock
	$(COMPILE) --extra build --extra demo --constraint requirements-dev.lock \
		--output-file requirements-demo.lock
	$(COMPILE_ANY) tests/clients/requirements.in --output-file tests/clients/requirements.txt

clean: ## Remove the environment, caches and build leftovers; data stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf .coverage build dist *.egg-info kitemq/build kitemq/*.egg-info engine/store/kernel/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment from the lock files alone: every download is checked against its hash, and the
# project's two distributions are added without any download.
# The kernel is compiled where a compiler and Python's headers are; else its twin in Python runs.
$(RUN): requirements.lock pyproject.toml setup.py engine/store/kernel/compiled.c kitemq/pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
	echo "KiteMQ needs Python 3.11 or newer: install it, or name it with make PYTHON=/path/to/python" >&2; \
	exit 1; fi
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| $(PYTHON) -m venv --clear $(VENV) \
	|| { rm -rf $(VENV); \
	echo "$(PYTHON) could not make an environment: install its venv module (on Debian: apt-get install python3-venv)" >&2; \
	exit 1; }
	$(PIP) -r requirements.lock
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation \
		--editable ./kitemq --editable .
	@touch $@

$(SPARK): $(RUN) requirements-analytics.lock
	$(PIP) -r requirements-analytics.lock
	@touch $@

$(DEV): $(RUN) $(SPARK) requirements-dev.lock
	$(PIP) -r requirements-dev.lock
	@touch $@

$(DEMO): $(RUN) requirements-demo.lock
	$(PIP) -r requirements-demo.lock
	@touch $@
