# The same few commands for people and for CI. Each one sets up what it needs by itself;
# only make and Python 3.11 or later are assumed.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup run test check format bench evidence soak fuzz docs plots fresh clean

BIN := .venv/bin
KUBE ?= 1

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name what; do printf '  make %-8s %s\n' "$$name" "$$what"; done

setup: ## make .venv with Muster and its tools (a no-op when nothing changed)
	@scripts/setup dev

run: setup ## start a server and an agent here, run a small mixed workload, say what happened; Ctrl-C ends it
	@$(BIN)/muster up --demo --nodes 2 --port 0 --data build/run

test: setup ## run all tests; ARGS="-k gang" picks some, KUBE=0 leaves out those on a real Kubernetes API server
	@KUBE=$(KUBE) scripts/test $(ARGS)

check: setup ## format, lint, types, layers
	@scripts/check

format: setup ## format the code and fix what the linter can fix
	@$(BIN)/ruff check --quiet --fix-only . && $(BIN)/ruff format --quiet .

bench: setup ## run the benchmarks, or the one called NAME
	@$(BIN)/python -m bench $(NAME)

evidence: ## run the experiments on public traces, or the one called E (two hours on 2 cores); goes on where it was stopped
	@scripts/setup evidence
	@$(BIN)/python -m evidence $(E)

soak: setup ## kill servers, agents, supervisors and databases 500 times under load, and write the table of docs/reliability.md; gangs at all loads
	@MUSTER_KILLS=$${KILLS:-500} MUSTER_RELIABILITY=docs/reliability.md $(BIN)/pytest -q -n 0 --timeout 0 tests/server/test_server_faults.py tests/local/test_local_faults.py $(ARGS)
	@MUSTER_GRID=1 $(BIN)/pytest -q -n auto --timeout 0 tests/properties/test_gangs.py

fuzz: setup ## run the property tests with fresh seeds
	@MUSTER_FUZZ=1 $(BIN)/pytest -m hypothesis -n auto --timeout 0 $(ARGS)

docs: ## build the documentation into build/docs
	@scripts/setup docs
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env -d build/doctrees docs build/docs
	@echo "docs: build/docs/index.html"

plots: ## draw the plots of docs/concepts/ and the picture of a report anew
	@scripts/setup docs
	@scripts/setup dev
	@$(BIN)/python docs/plots.py
	@$(BIN)/python docs/screenshot.py

fresh: ## clone HEAD into an empty system and run .ci/run there
	@scripts/fresh

clean: ## remove .venv, build products and caches
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find src tests bench docs scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
