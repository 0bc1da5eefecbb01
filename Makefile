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
LISTEN ?= 127.0.0.1:8080
# 0 leaves Spark and its Java (0.7 GB) out: everything but the reports.
ANALYTICS ?= 1
# The tests are shared between so many processes; each has a PostgreSQL, a Spark and a browser.
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes
RUN := $(VENV)/.run.stamp
SPARK := $(VENV)/.spark.stamp
DEV := $(VENV)/.dev.stamp
DEMO := $(VENV)/.demo.stamp
SHARED := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

.PHONY: help run demo test check format bench soak lock clean

help: ## List these words
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "Variables: DATA=$(DATA) LISTEN=$(LISTEN) ANALYTICS=$(ANALYTICS) WORKERS=$(WORKERS) PYTHON=$(PYTHON)"

run: $(RUN) $(if $(filter 0,$(ANALYTICS)),,$(SPARK)) ## Start KiteMQ and its console (DATA=folder, LISTEN=host:port, ANALYTICS=0)
	@echo "Console: http://$(LISTEN)/   API: http://$(LISTEN)/docs/api   Stop: Ctrl-C"
	@exec $(BIN)/kitemq serve --data '$(DATA)' --listen '$(LISTEN)'

demo: $(DEMO) $(if $(filter 0,$(ANALYTICS)),,$(SPARK)) ## Start KiteMQ with real flights as messages, to look around in
	$(BIN)/python -m examples.flights --data $(DATA)-demo --listen $(LISTEN)

test: $(DEV) $(DEMO) ## Run every test, browser and crash tests included
	sh tools/ensure_chromium.sh
	sh tools/ensure_node.sh tests/oidc tests/clients
	sh tools/ensure_clients.sh $(BIN)/python
	sh tools/ensure_postgres.sh
	$(SHARED) -m 'not gives_way'
	$(SHARED) -m gives_way

check: $(DEV) ## Lint, format, types, import contracts and the documentation's claims
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest tests/docs -m 'not slow'

format: $(DEV) ## Format the code and sort its imports
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

bench: $(DEV) ## Measure speed: figures on standard output (see bench/)
	$(BIN)/python -m bench

soak: $(DEV) ## MINUTES=10 of simulated crashes, then as many of a killed server: what was lost?
	$(BIN)/python -m tests.simulation.soak --minutes $(or $(MINUTES),10)
	$(BIN)/python -m bench.soak --seconds $$((60 * $(or $(MINUTES),10)))

COMPILE_ANY = $(BIN)/uv pip compile --quiet --universal --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --python-version 3.11 $(UPGRADE)
COMPILE = $(COMPILE_ANY) pyproject.toml

lock: $(DEV) ## Write the lock files anew (UPGRADE=--upgrade for newer versions)
	$(COMPILE) --extra build --output-file requirements.lock
	$(COMPILE) --extra build --extra analytics --constraint requirements.lock \
		--output-file requirements-analytics.lock
	$(COMPILE) --extra build --extra dev --constraint requirements-analytics.lock \
		--output-file requirements-dev.lock
	$(COMPILE) --extra build --extra demo --constraint requirements-dev.lock \
		--output-file requirements-demo.lock
	$(COMPILE_ANY) tests/clients/requirements.in --output-file tests/clients/requirements.txt

clean: ## Remove the environment, caches and build leftovers; data stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf build dist kitemq.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment from the lock files alone: every download is checked against its hash, and the
# project itself is added without any download.
$(RUN): requirements.lock pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
	echo "KiteMQ needs Python 3.11 or newer: install it, or name it with make PYTHON=/path/to/python" >&2; \
	exit 1; fi
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| $(PYTHON) -m venv --clear $(VENV) \
	|| { rm -rf $(VENV); \
	echo "$(PYTHON) could not make an environment: install its venv module (on Debian: apt-get install python3-venv)" >&2; \
	exit 1; }
	$(PIP) -r requirements.lock
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation --editable .
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
