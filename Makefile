# Two commands matter: `make demo` and `make test`. Both set up .venv first when it is missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
unexport PYTHONDONTWRITEBYTECODE  # else two test workers and every child process compile the package again

.PHONY: setup demo test test-pld bench check docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all,dev,docs]'
	@touch $@

demo: setup
	$(BIN)/edgeveil audit --out demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

# dp-accounting needs an older attrs than constraints.txt pins, so its tests have an environment of their own.
test-pld:
	test -d .venv-pld || $(PYTHON) -m venv .venv-pld
	.venv-pld/bin/python -m pip install --quiet 'dp-accounting==0.6.0' numpy scipy pytest pytest-timeout
	PYTHONPATH=src .venv-pld/bin/python -m pytest tests/privacy/test_pld.py

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
	rm -rf $(VENV) .venv-pld demo site dist benchmarks/results
