# Every target sets up its own environment: uv when it is there, else venv and pip. Both install requirements.lock.
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON ?= python3

.PHONY: run test lint bench lock clean wheel-test ci smoke

run: $(STAMP)
	@$(BIN)/slowwave try --samples examples/sessions

test: $(STAMP)
	@$(BIN)/pytest $(if $(CI),-n 2,-n auto) $(ARGS)

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

bench: $(STAMP)
	@$(BIN)/python -m bench $(ARGS)

wheel-test: $(STAMP)
	@deploy/wheel_test.sh $(PYTHON)

smoke: $(STAMP)
	@$(BIN)/pytest -m smoke $(ARGS)

ci:
	@bash .ci/run

$(STAMP): pyproject.toml requirements.lock
	@deploy/setup.sh $(VENV) $(PYTHON)
	@touch $@

# Writes the pinned, hashed list both installers use. Needs uv.
lock:
	@deploy/lock.sh

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
