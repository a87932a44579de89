# Every target works from a fresh clone: it checks what it needs, creates $(VENV), builds and installs Keuka there, and then runs.
# Stamp files in $(VENV) remember what was done, so a second run redoes nothing.

PYTHON ?= python3
VENV ?= .venv
EXAMPLES ?= 2000
QUERIES ?= 200000
DATA ?= 50000
SNAPSHOTS ?= 100000
TABLES ?= 100000
KILLS ?= 30
SPARK_KILLS ?= 10
STREAM_KILLS ?= 30
ifndef SEED
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif

BIN := $(VENV)/bin
PXD := $(wildcard src/keuka/kernel/*.pxd)
OLDEST_SPARK := build/spark/4.1.0
KERNEL := $(PXD) $(wildcard $(PXD:.pxd=.py))
# Tests in several processes. Those that share something costly, as a Spark session, have it as their group and stay in one.
DIVIDED := --numprocesses auto --maxprocesses 4 --dist loadgroup

# A sanitized kernel needs the sanitizer loaded before Python, and C++'s library for exceptions. All memory comes from malloc, where
# the sanitizer sees its bounds; leaks of other libraries are not ours. Reports must get past pytest's capture (`--capture=sys`).
LIBASAN = $(shell $(CXX) -print-file-name=libasan.so)
SANITIZED = LD_PRELOAD="$(LIBASAN) $(shell $(CXX) -print-file-name=libstdc++.so)" PYTHONPATH=$(CURDIR)/build/sanitized \
  PYTHONMALLOC=malloc ARROW_DEFAULT_MEMORY_POOL=system UBSAN_OPTIONS=print_stacktrace=1 \
  LSAN_OPTIONS=suppressions=$(CURDIR)/tests/kernel/leaks.txt:print_suppressions=0
KERNEL_TESTS := tests/kernel tests/run --ignore=tests/run/test_process_memory.py

.DEFAULT_GOAL := help
.PHONY: help demo test test-connect test-oldest test-cluster test-kill laws laws-spark sanitize fuzz soak bench bench-compare bench-spark bench-streaming lint \
  format docs build wheel clean FORCE

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## make up a stock market and a store, run a pipeline over them on Spark, draw a match
	$(BIN)/python examples/demo.py

test: lint ## lint, then every test with a fixed number of random examples
	$(BIN)/pytest $(DIVIDED) --ignore=tests/cluster --ignore=tests/connect --ignore=tests/kill

test-connect: build ## the core cases over Spark Connect, and queries in Spark Declarative Pipelines
	KEUKA_SPARK_CONNECT=1 SPARK_TESTING=0 $(BIN)/pytest tests/spark/test_frames.py tests/spark/test_streaming.py
	$(BIN)/pytest tests/connect

test-oldest: build $(OLDEST_SPARK)/pyspark ## the core cases on the oldest Spark that is supported
	PYTHONPATH=$(CURDIR)/$(OLDEST_SPARK) $(BIN)/python -c 'import pyspark; assert pyspark.__version__ == "$(notdir $(OLDEST_SPARK))"'
	PYTHONPATH=$(CURDIR)/$(OLDEST_SPARK) $(BIN)/pytest tests/spark/test_frames.py tests/spark/test_expressions.py
	PYTHONPATH=$(CURDIR)/$(OLDEST_SPARK) SPARK_HOME=$(CURDIR)/$(OLDEST_SPARK)/pyspark $(BIN)/pytest tests/connect

$(OLDEST_SPARK)/pyspark: | build
	$(BIN)/pip install --quiet --target $(OLDEST_SPARK) 'pyspark==$(notdir $(OLDEST_SPARK))'

test-cluster: build ## a Spark cluster of a master and two workers on this machine, with what `keuka pack` packs
	$(BIN)/pytest tests/cluster

test-kill: build ## runs killed at random moments: KILLS (30) embedded, SPARK_KILLS (10) on Spark, STREAM_KILLS (30) streaming
	@echo "repeat these kills with: make test-kill KILLS=$(KILLS) SPARK_KILLS=$(SPARK_KILLS) STREAM_KILLS=$(STREAM_KILLS) SEED=$(SEED)"
	SEED=$(SEED) KEUKA_KILLS=$(KILLS) KEUKA_SPARK_KILLS=$(SPARK_KILLS) KEUKA_STREAM_KILLS=$(STREAM_KILLS) $(BIN)/pytest tests/kill

laws: build ## the laws of the algebra over EXAMPLES (2000) random queries and streams each, with a fresh SEED
	@echo "repeat exactly these examples with: make laws EXAMPLES=$(EXAMPLES) SEED=$(SEED)"
	KEUKA_LAW_EXAMPLES=$(EXAMPLES) $(BIN)/pytest $(DIVIDED) tests/laws --hypothesis-seed=$(SEED)

laws-spark: build ## queries on Spark and in this process, EXAMPLES random ones in one job, with a fresh SEED
	@echo "repeat exactly these examples with: make laws-spark EXAMPLES=$(EXAMPLES) SEED=$(SEED)"
	KEUKA_LAW_EXAMPLES=1 KEUKA_SPARK_EXAMPLES=$(EXAMPLES) $(BIN)/pytest tests/spark/test_spark_laws.py --hypothesis-seed=$(SEED)

sanitize: build ## the tests again with a kernel that checks every index, then with one under AddressSanitizer and UBSan
	KEUKA_BUILD=checked $(BIN)/python setup.py --quiet build
	PYTHONPATH=$(CURDIR)/build/checked KEUKA_LAW_EXAMPLES=60 \
	  $(BIN)/pytest $(DIVIDED) --ignore=tests/test_project.py --ignore=tests/spark --ignore=tests/cluster --ignore=tests/connect \
	  --ignore=tests/kill --hypothesis-seed=$(SEED)
	@test -e "$(LIBASAN)" || { echo "$(CXX) has no AddressSanitizer: libasan.so is missing (on Debian it comes with g++)"; exit 1; }
	KEUKA_BUILD=sanitized $(BIN)/python setup.py --quiet build
	$(SANITIZED) ASAN_OPTIONS=detect_leaks=0 KEUKA_LAW_EXAMPLES=30 \
	  $(BIN)/pytest $(DIVIDED) --capture=sys $(KERNEL_TESTS) tests/events tests/laws tests/test_workloads.py --hypothesis-seed=$(SEED)
	$(SANITIZED) ASAN_OPTIONS=malloc_context_size=2 $(BIN)/pytest --capture=sys $(KERNEL_TESTS) --ignore=tests/run/test_interrupt.py
	$(SANITIZED) ASAN_OPTIONS=detect_leaks=0:max_allocation_size_mb=1024:allocator_may_return_null=1 \
	  $(BIN)/python -m tests.fuzz tables --tables 3000 --seed $(SEED)

fuzz: build ## random QUERIES (200000), DATA (50000), SNAPSHOTS and TABLES (100000 each) through the public API, with a fresh SEED
	$(BIN)/python -m tests.fuzz --queries $(QUERIES) --data $(DATA) --snapshots $(SNAPSHOTS) --tables $(TABLES) --seed $(SEED)

soak: build ## 200 million events with 100 million keys; memory must stay flat. The curve goes to out/soak.png
	$(BIN)/python benchmarks/soak.py

bench: build ## measure speed and memory; tables and plots go to out/bench
	$(BIN)/python benchmarks/run.py

bench-compare: build ## the benchmarks with this checkout and with another one (OLD=DIR), repetition by repetition in turns
	@test -n "$(OLD)" || { echo "name the other checkout: make bench-compare OLD=../keuka-before"; exit 1; }
	cd $(OLD) && KEUKA_BUILD=release $(abspath $(BIN))/python setup.py --quiet build_ext --inplace
	$(BIN)/python benchmarks/compare.py $(OLD)

bench-spark: build ## W1 and W2 on Spark in local mode, next to what else can be done there; tables go to out/bench/spark
	$(BIN)/python benchmarks/run_spark.py

bench-streaming: build ## queries over streaming DataFrames, next to passes without a kernel; tables go to out/bench/streaming
	$(BIN)/python benchmarks/run_streaming.py

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
	find build/release -name '*.py' -delete  # modules that no longer exist; the compiled kernel stays
	$(BIN)/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .

clean: ## remove everything that was built, the environment too
	rm -rf $(VENV) build dist out src/*.egg-info src/keuka/kernel/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# An editable install: plain Python files are used from src/ as they are; only the kernel has to be compiled again.
$(VENV)/.installed: $(VENV)/.tools pyproject.toml setup.py build/flags $(KERNEL)
	KEUKA_BUILD=release $(BIN)/pip install --quiet --no-build-isolation --constraint constraints.txt --editable '.[dev]'
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
