# Every target works from a fresh clone: it checks what it needs, creates $(VENV), builds and installs Keuka there, and then runs.
# Stamp files in $(VENV) remember what was done, so a second run redoes nothing.

PYTHON ?= python3
VENV ?= .venv
EXAMPLES ?= 2000
ifndef SEED
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif

BIN := $(VENV)/bin
PXD := $(wildcard src/keuka/kernel/*.pxd)
KERNEL := $(PXD) $(wildcard $(PXD:.pxd=.py))

.DEFAULT_GOAL := help
.PHONY: help demo test laws checked bench lint format docs build wheel clean FORCE

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## generate a stock stream, run two queries over it, draw a match
	$(BIN)/python examples/stock_demo.py

test: lint ## lint, then every test with a fixed number of random examples
	$(BIN)/pytest

laws: build ## the laws of the algebra over EXAMPLES (2000) random queries and streams each, with a fresh SEED
	@echo "repeat exactly these examples with: make laws EXAMPLES=$(EXAMPLES) SEED=$(SEED)"
	KEUKA_LAW_EXAMPLES=$(EXAMPLES) $(BIN)/pytest tests/laws --hypothesis-seed=$(SEED)

checked: build ## the tests again, with a kernel that checks every index
	KEUKA_CHECKED=1 $(BIN)/python setup.py --quiet build --build-base build/checked-objects --build-lib build/checked
	PYTHONPATH=$(CURDIR)/build/checked $(BIN)/pytest --ignore=tests/test_project.py

bench: build ## measure speed and memory; tables and plots go to out/bench
	$(BIN)/python benchmarks/run.py

lint: build ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: build ## let ruff rewrite the sources
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: build ## write docs/errors.md again
	$(BIN)/python docs/make_errors.py

build: $(VENV)/.installed ## the environment with Keuka installed in it, editable

wheel: build ## dist/keuka-*.whl
	rm -rf build/lib.* build/bdist.*
	$(BIN)/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .

clean: ## remove everything that was built, the environment too
	rm -rf $(VENV) build dist out src/*.egg-info src/keuka/kernel/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# An editable install: plain Python files are used from src/ as they are; only the kernel has to be compiled again.
$(VENV)/.installed: $(VENV)/.tools pyproject.toml setup.py build/flags $(KERNEL)
	KEUKA_CHECKED=0 $(BIN)/pip install --quiet --no-build-isolation --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(VENV)/.tools: constraints.txt
	@$(PREREQUISITES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip setuptools wheel Cython
	@touch $@

# The compiler and its flags decide what is built, too; the file changes only when they do.
build/flags: FORCE
	@mkdir -p build
	@echo '$(CXX) $(CXXFLAGS) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CXX) $(CXXFLAGS) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS)' > $@

FORCE:

define PREREQUISITES
missing=""; \
if ! command -v $(PYTHON) > /dev/null; then missing="python3 python3-venv python3-dev"; \
else \
  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || { echo "Keuka needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V). Name another one: make PYTHON=python3.12"; exit 1; }; \
  $(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || missing="python3-venv"; \
  $(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' \
    || missing="$$missing python3-dev"; \
fi; \
command -v $(firstword $(CXX)) > /dev/null || missing="$$missing g++"; \
if [ -n "$$missing" ]; then echo "Missing Debian packages; install them with: apt install $$missing"; exit 1; fi
endef
