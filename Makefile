# Every target makes .venv and installs into it when it is missing or pyproject.toml has changed,
# so that a fresh clone needs `make demo` and `make test` and nothing before them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
PYTEST := $(BIN)/pytest -q --no-header -r fE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all check bench wheel clean

help:
	@echo "make demo      diagnose a slow core in ResNet-50 on a 4x4 mesh; pictures go to out/"
	@echo "make test      the tests, but for the slow ones"
	@echo "make test-all  every test"
	@echo "make check     ruff, mypy --strict and the import contracts"
	@echo "make bench     the benchmarks"
	@echo "make wheel     build the wheel into dist/"
	@echo "make clean     remove what the targets made, .venv included"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed; name one with make PYTHON=...")'
	@test -x $(BIN)/python || { echo "making $(VENV); the first time installs PyTorch, which takes minutes"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]' --group dev
	@touch $@

demo: $(READY)
	@mkdir -p out
	$(BIN)/slowpoke analyze resnet50 --mesh 4x4 --fault core:5@10x --seed 1 \
		--plot out/mesh.png --html out/report.html --json out/diagnosis.json

test: $(READY)
	@$(PYTEST) -n $(WORKERS) -m "not slow"

test-all: $(READY)
	@$(PYTEST) -n $(WORKERS)

check: $(READY)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { echo "not formatted; run $(BIN)/ruff format"; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache > $(VENV)/contracts.txt || { cat $(VENV)/contracts.txt; exit 1; }

# Times are compared within one run, never with a number from another machine.
bench: $(READY)
	$(PYTEST) -o python_files='bench_*.py' --benchmark-only benchmarks

wheel: $(READY)
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache .coverage
	find mapping sim tracer torch_slowpoke tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
