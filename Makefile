# Needs python3 (3.11 or newer), make and a network. Everything else is fetched into .venv, by hash.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
# The version of Kubernetes that tests run against, as 1.37.2 or 1.37.
ifdef KUBERNETES
export GANGSCHED_KUBERNETES := $(KUBERNETES)
endif

.DEFAULT_GOAL := help
.PHONY: help env demo kind test rules check format readme compare control-plane producers lock chart release clean

help: ## show this list
	@if [ -t 1 ]; then bold='\033[1m' blue='\033[36m' off='\033[0m'; fi; \
	printf "\n  $${bold}py-gang-scheduler$${off}: gangs start whole or not at all\n\n"; \
	awk -F ':.*## ' -v blue="$$blue" -v off="$$off" \
		'/^[a-z-]+:.*## / { printf "  make %s%-14s%s %s\n", blue, $$1, off, $$2 }' $(MAKEFILE_LIST); \
	printf '\n'

rules: ## list the rules of tests by words (make rules evict gang)
	@$(PYTHON) -m tests.rules $(WORDS)

# In `make rules evict gang` the words after the first are what to look for: none of them is made.
ifeq (rules,$(firstword $(MAKECMDGOALS)))
WORDS := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
.PHONY: $(WORDS)
$(WORDS): ; @:
else

env: ## create or refresh .venv (again: under a second)
	@$(PYTHON) .ci/bootstrap.py

demo: env ## watch a gang preempt, with no cluster (ARGS=--list: more)
	@$(BIN)/gangsched demo $(ARGS)

kind: env ## a cluster in Docker with fake GPU nodes (kind, kubectl)
	@examples/kind/up.sh

test: env control-plane ## the whole suite, on a real API server (ARGS= for pytest)
	@$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

check: env ## lint, limits, format, types, layers: all of them
	@failed=; \
	for tool in 'ruff check' 'python .ci/limits.py' 'ruff format --check' mypy 'lint-imports --no-logo'; do \
		echo "• $$tool"; $(BIN)/$$tool || failed="$$failed, $$tool"; \
	done; \
	if [ -n "$$failed" ]; then \
		echo "failed: $${failed#, }. 'make format' repairs what ruff can repair." >&2; exit 1; \
	fi

format: env ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format

readme: env ## write generated tables, numbers and pictures of pages
	@$(BIN)/python -m tests.readme

compare: env ## measure beside kube-scheduler (ARGS=--quick, --offline)
	@$(BIN)/python -m tests.bench.compare $(ARGS)

control-plane: env ## build what tests run against, once (KUBERNETES=1.37: newer)
	@$(BIN)/python -m tests.controlplane build

producers: env ## run real controllers that make gangs, and record them
	@$(BIN)/python -m tests.producers

chart: env ## write the Helm chart's share of manifests/ anew
	@$(BIN)/python .ci/chart.py

release: env ## build and check all of a release (VERSION=0.1.0 DRY=1)
	@$(BIN)/python .ci/release.py $(or $(VERSION),$(error VERSION=0.1.0 is missing)) $(if $(DRY),--dry)

lock: env ## write the lock files again (UPGRADE=1: newer versions)
	@$(BIN)/python .ci/lock.py $(if $(UPGRADE),--upgrade)

clean: ## remove .venv and caches, but no control plane
	@rm -rf .venv .venv.lock build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find gangsched tests .ci -name __pycache__ -type d -prune -exec rm -rf {} +

endif
