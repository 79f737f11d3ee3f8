# Two commands do everything: `make demo` and `make test`.
VENV := .venv
BIN := $(VENV)/bin

.PHONY: venv check test demo constraints

venv: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	deploy/demo/install-python
	python3 -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[postgres]' --group dev
	touch $@

check: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	deploy/demo/install demo test
	$(BIN)/pytest

demo: venv
	@deploy/demo/install demo
	@PYTHONPATH=deploy $(BIN)/python -m demo
