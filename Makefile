# Two commands matter: `make demo` and `make test`. Both set up .venv first when it is missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test bench check docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all,dev,docs]'
	@touch $@

demo: setup
	$(BIN)/edgeveil audit --out demo

test: setup
	$(BIN)/python -m pytest -n 2

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_imports.py tests/test_house.py

bench: setup
	$(BIN)/python benchmarks/run.py

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) demo site dist benchmarks/results
