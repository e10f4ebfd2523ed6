# `make help` lists the targets. Everything is built inside this folder: target/ (Rust) and .venv/ (Python).
PYTHON ?= python3
BIN := .venv/bin
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -type f \( -name '*.rs' -o -name '*.toml' \))
# The package version is compiled in; the rest of the package is used from python/ as it stands.
BUILD := .venv/.built
DEV := .venv/.dev
EMU := python/airtcp/airtcp-emu
REQUIREMENTS = $(BIN)/python tools/requirements.py

##@ Use
.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: $(BUILD) ## Build; leaves the command at .venv/bin/airtcp

.PHONY: demo
demo: build ## The study ap-retry-out in its quick size: main verdicts here, a report in runs/demo/
	@tools/demo.sh

.PHONY: wheel
wheel: $(BUILD) $(DEV) ## A wheel in target/wheels that pip installs without a compiler
	$(BIN)/python tools/wheel.py --build

.PHONY: host
host: ## The binary airtcp-host for Linux hosts, fully static; left in target/x86_64-unknown-linux-gnu/release/
	@tools/host.sh build

.PHONY: host-package
host-package: ## A Debian package of airtcp-host with its systemd units; left in target/
	@tools/host.sh package

# Small functions are inlined up to this size: with the usual limits of levels "s" and "z" the engine is larger, or slower.
WEB_FLAGS := target.wasm32-unknown-unknown.rustflags = ["-Cllvm-args=-inline-threshold=25"]

.PHONY: playground
playground: ## The simulator as a web page, for airtcp play; needs Node and npm, which nothing else does
	@tools/check_tools.sh playground
	cargo build --profile web --package airtcp-web --lib --target wasm32-unknown-unknown --config '$(WEB_FLAGS)'
	npm --prefix playground ci --ignore-scripts --no-audit --no-fund --loglevel=error
	cargo run --quiet --package airtcp-sim --example schema > playground/schema.json
	npm --prefix playground run --silent types
	npm --prefix playground run --silent lint
	npm --prefix playground run --silent build
	npm --prefix playground run --silent test
	mkdir -p python/airtcp/page && cp playground/dist/playground.html python/airtcp/page/

##@ Develop
.PHONY: test
test: $(BUILD) $(DEV) ## All tests, Rust and Python
	cargo test --workspace
	$(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: test-all
test-all: $(BUILD) $(DEV) ## All tests, then a list and the number of those skipped here and why (browser, namespaces, rights)
	@tools/test_all.sh

.PHONY: test-wheel
test-wheel: $(BUILD) $(DEV) ## Build the wheel, install it into an empty environment, use it there
	$(BIN)/python tools/wheel.py

.PHONY: test-host
test-host: ## Tests of airtcp-host against this kernel; what lacks rights is skipped aloud
	@tools/host.sh test

.PHONY: packetdrill
packetdrill: ## Fetch the public scripts of packetdrill at a fixed commit and play them against airtcp's TCP
	@tools/packetdrill.sh

.PHONY: bpf
bpf: ## Rebuild the BPF objects of crates/host; needs clang-14 and rustup's llvm-tools
	@crates/host/bpf/build.sh

.PHONY: lint
lint: $(BUILD) $(DEV) ## Formatting, lints, types, and layers of the package
	@tools/check_tools.sh lint
	$(BIN)/python tools/comments.py
	cargo fmt --all --check
	git ls-files -z '*.rs' | xargs -0 rustfmt --check --edition 2024
	cargo clippy --workspace --all-targets -- -D warnings
	@if cargo +1.85.0 --version >/dev/null 2>&1; then cargo +1.85.0 check --workspace --all-targets --target-dir target/oldest; \
	else echo 'skipped: a build with the oldest compiler, Rust 1.85 (rustup toolchain install 1.85.0 --profile minimal)'; fi
	@if tools/host.sh have; then tools/host.sh lint; else echo 'skipped: airtcp-host with BPF'; fi
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check bans licenses sources; else echo 'skipped: cargo-deny is not installed'; fi
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -m mypy.stubtest airtcp._airtcp --ignore-missing-stub

.PHONY: bench
ifdef OLD
bench:
	$(PYTHON) bench/engines.py --old '$(OLD)'
else
bench: $(BUILD) ## Speed and agreement against other simulators, in bench/latest.json; with OLD=COMMIT: this engine beside that one
	$(BIN)/python bench/run.py
endif

.PHONY: site
site: target/.site ## The documentation as a site, in target/site; links within it are checked
	NO_MKDOCS_2_WARNING=1 target/site-env/bin/mkdocs build --strict --quiet

# Its tools stay out of .venv: nothing else needs them, and their versions are pinned.
target/.site: tools/site-requirements.txt
	$(PYTHON) -m venv target/site-env
	target/site-env/bin/python -m pip install --quiet --disable-pip-version-check -r tools/site-requirements.txt
	@touch $@

.PHONY: generate
generate: $(BUILD) $(DEV) ## Rewrite what follows: Python types, reference pages, pages with verdicts
	$(BIN)/python tools/generate.py
	$(BIN)/python tools/verdicts.py

.PHONY: clean
clean: ## Remove everything that was built; results in runs/ stay
	rm -rf playground/dist playground/node_modules python/airtcp/page
	rm -rf target .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python -name '*.so' -delete
	rm -f $(EMU)
	find python tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# --- how it is built ---------------------------------------------------------------------------------------------------

.venv/.tools: pyproject.toml tools/requirements.py tools/check_tools.sh
	@PYTHON='$(PYTHON)' tools/check_tools.sh
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(REQUIREMENTS) build | $(BIN)/python -m pip install --quiet --disable-pip-version-check -r /dev/stdin
	@touch $@

$(BUILD): .venv/.tools $(RUST_SOURCES)
	@if [ "$$(uname)" = Linux ]; then $(MAKE) --no-print-directory $(EMU); fi
	PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/maturin develop --release
	@touch $@

# The program of `airtcp shell`: it lies in the package, from where wheels take it. The bindings are named so that the simulator is
# compiled with the features of their dependencies, as maturin does: once for both.
$(EMU): $(RUST_SOURCES)
	cargo build --release --package airtcp-emu --package airtcp-py --bin airtcp-emu
	cp target/release/airtcp-emu $@.new
	mv $@.new $@

$(DEV): .venv/.tools
	$(REQUIREMENTS) dev | $(BIN)/python -m pip install --quiet --disable-pip-version-check -r /dev/stdin
	@touch $@
