# Every target sets up its own environment: uv when it is there, else venv and pip. Both install requirements.lock.
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON ?= python3

# Tests are rewritten and compiled once and not at every run, whatever the environment says: it takes each worker 12 s.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test torture lint format bench bench-recall lock clean wheel-test smoke fresh-clone fault-list screenshots ci

run: $(STAMP)
	@$(BIN)/slowwave try --samples examples/sessions

# What every change runs, in minutes. `make test TESTS=all` adds what takes longer, as CI does: kills and disk faults at
# every step, real Prefect servers, Chromium, the real hosts, a real model where its server is installed.
TESTS ?= quick
quick := not torture and not deep and not browser and not hosts and not server and not smoke
all := not torture

test: $(STAMP)
	@$(BIN)/pytest -n auto --maxprocesses 8 --dist loadfile -m "$($(TESTS))" $(ARGS)

# Many processes against one store, then kills, faults and random histories for MINUTES (20); not part of `make test`.
# Prints its seed; the same seed does the same again: make torture SEED=7 MINUTES=60
torture: $(STAMP)
	@$(BIN)/pytest -m torture $(ARGS)
	@$(BIN)/python -m tests.torture.long $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES))

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Ratios within one run, by hand: make bench ARGS="cli pipeline"
bench: $(STAMP)
	@$(BIN)/python -m bench $(ARGS)

# Retrieval benchmarks beside published figures; public data is read from SLOWWAVE_BENCH_DATA.
bench-recall: $(STAMP)
	@$(BIN)/python -m bench recall

wheel-test: $(STAMP)
	@deploy/wheel_test.sh $(PYTHON)

smoke: $(STAMP)
	@deploy/install_smoke.sh $(VENV)
	@$(BIN)/pytest -m smoke $(ARGS)

# What a newcomer gets: a clone, an empty home, nothing but PATH.
fresh-clone:
	@deploy/fresh_clone.sh

# Brings docs/faults.md up to the marks in the tests.
fault-list: $(STAMP)
	@$(BIN)/python -m tests.packaging.fault_list

# The pictures of docs/dashboard.md, from the sample sessions; needs Chromium (deploy/install_browser.sh).
screenshots: $(STAMP)
	@$(BIN)/python -m tests.browser.screenshots docs/images

ci:
	@.ci/run

$(STAMP): pyproject.toml requirements.lock
	@deploy/setup.sh $(VENV) $(PYTHON)
	@touch $@

# Writes the pinned, hashed list both installers use. Needs uv.
lock:
	@deploy/lock.sh

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
