# Targets: `make help`. Everything runs in a virtual environment that these targets create and keep up to date.
VENV ?= .venv
RECIPE ?= quadrotor_hover
FLY ?= rlstack fly $(RECIPE)
# One more than the cores of the smallest machine: many tests wait for processes and real time
WORKERS ?= 3
SHELL := /bin/sh

# tools/environment.py runs on the environment's own Python if it exists, else on the Python that creates it
SET_UP = python="$(VENV)/bin/python"; "$$python" -S -c "" 2>/dev/null || python=$$(PYTHON="$(PYTHON)" tools/find_python) \
	&& "$$python" -S tools/environment.py --venv "$(VENV)" --python "$(PYTHON)" --torch-index "$(TORCH_INDEX)"
# As after activation, without the calling shell's Python settings; without bytecode files, each of hundreds of processes
# would compile all its imports
IN_VENV = unset VIRTUAL_ENV PYTHONHOME PYTHONDONTWRITEBYTECODE; PATH="$(abspath $(VENV))/bin:$$PATH"
# Code that hangs in C ignores pytest-timeout's signal: end its worker, with a stack of each thread
STUCK = -o faulthandler_timeout=700 -o faulthandler_exit_on_timeout=true
RUNTIME = ros,sim,train,view,hardware
TESTED = cuda,pybullet,docs,sweep

.PHONY: help fly setup dev docs tools-for-tests test lint check style types run-tests format clean

help: ## List the targets and variables
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile | expand -t 16
	@echo; echo "  Variables: PYTHON=python3.12 (3.10 to 3.13), VENV=.venv, RECIPE=quadrotor_hover, WORKERS=3 (of the tests),"
	@echo "  TESTS='tests/robots -k name' (arguments of pytest), TORCH_INDEX=<package index for PyTorch alone>"

fly: setup ## Set everything up, train a quadrotor policy, verify it over ROS 2, print how well it flies
	@$(IN_VENV) $(FLY)

setup: ## Create or update the virtual environment for training and flying
	@$(SET_UP) --extras $(RUNTIME)

dev: ## The same with the developer tools and an editable installation
	@$(SET_UP) --extras $(RUNTIME),$(TESTED),dev --editable

docs: ## Build the documentation site, build/site/index.html, and check its links
	@$(SET_UP) --extras $(RUNTIME),docs
	@$(IN_VENV) NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
	@echo "build/site/index.html"

tools-for-tests:
	@$(SET_UP) --extras $(RUNTIME),$(TESTED),dev

test: tools-for-tests ## Set everything up, then lint, types and all tests except those that train for minutes
	@$(MAKE) --no-print-directory style
	@$(MAKE) --no-print-directory -j 2 types run-tests

lint: tools-for-tests ## Lint, formatting and types
	@$(MAKE) --no-print-directory check

check: style types

style:
	@$(IN_VENV) ruff check .
	@$(IN_VENV) ruff format --check .

types:
	@$(IN_VENV) mypy

run-tests:
	@$(IN_VENV) OMP_NUM_THREADS=1 python -m pytest -n $(WORKERS) --dist worksteal $(STUCK) -m "not learning and not quiet and not slow" $(TESTS)

format: tools-for-tests ## Format the sources
	@$(IN_VENV) ruff format .
	@$(IN_VENV) ruff check --fix .

clean: ## Remove the virtual environment and the tools' caches; runs/ stays
	rm -rf "$(VENV)" dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -not -path "./.*" -prune -exec rm -rf {} +
