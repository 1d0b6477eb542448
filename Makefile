# Everything a contributor runs. Each target makes what it needs, and is quick when nothing changed.
#   make build   the extension, in release mode, installed into .venv (editable)
#   make demo    an MLP and a CNN on scikit-learn's digits, on the device
#   make test    what .ci/run runs: formats, lints, Rust tests, Python tests
#   make bench   host time per call beside torch on the CPU, and training steps
#   make lint fmt clean

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: build demo test test-rust test-python bench lint fmt clean

export CARGO_BUILD_JOBS ?= 2
# `make` as root in a container is usual here.
export PIP_ROOT_USER_ACTION := ignore
export PIP_DISABLE_PIP_VERSION_CHECK := 1

PYTHON3 := $(shell command -v python3.11 || command -v python3)
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMPS := .make
TORCH := torch==2.13.0
CPU_PLUGINS := lammps-jax-pjrt-cpu==0.11.2 xla-cpu-pjrt==0.0.1
TOOLS := numpy expecttest pytest pytest-timeout pytest-xdist ruff==0.17.6 'maturin>=1.9,<2' scikit-learn tqdm

RUST_SOURCES := Cargo.toml Cargo.lock build.rs $(shell find src cpp_shim -type f)
PACKAGE := pyproject.toml

# The Rust tests need neither torch nor an interpreter to link against.
RUST_TEST_FLAGS := --no-default-features

# The interpreter that build scripts and tests use: torch is found through it.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(PYTHON)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

build: $(STAMPS)/extension
	@:

$(STAMPS)/venv:
	@mkdir -p $(STAMPS)
	test -x $(PYTHON) || $(PYTHON3) -m venv $(VENV)
	@touch $@

# The plugins come without their own requirements: one of them requires jax, which nothing here uses.
$(STAMPS)/packages: $(STAMPS)/venv Makefile
	$(PYTHON) -m pip install --quiet $(TORCH) $(TOOLS)
	$(PYTHON) -m pip install --quiet --no-deps $(CPU_PLUGINS)
	@touch $@

$(STAMPS)/extension: $(STAMPS)/packages $(RUST_SOURCES) $(PACKAGE)
	$(VENV)/bin/maturin develop --release
	@touch $@

demo: build
	$(PYTHON) examples/demo.py

lint: $(STAMPS)/packages
	cargo fmt --check
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	cargo clippy --all-targets -- -D warnings

fmt: $(STAMPS)/packages
	cargo fmt
	$(VENV)/bin/ruff check --fix --quiet . || true
	$(VENV)/bin/ruff format .

test: lint test-rust test-python

test-rust: $(STAMPS)/packages
	command -v cargo-nextest >/dev/null || cargo install --locked cargo-nextest
	cargo nextest run $(RUST_TEST_FLAGS)

# Two workers: one program compiles while another test runs.
test-python: build
	$(PYTHON) -m pytest -n 2 --dist loadfile

bench: build
	$(PYTHON) benchmarks/host_overhead.py
	$(PYTHON) benchmarks/models.py

clean:
	cargo clean
	rm -rf $(STAMPS) python/torch_tpu/*.so build dist
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
