# `make help` lists the targets. The virtual environment .venv is created on first use.
PYTHON ?= python3
ARGS ?=
GPUS = $$(.venv/bin/python -c "import torch; print(max(1, torch.cuda.device_count()))")

.DEFAULT_GOAL := help
.PHONY: help install demo test chaos lint train-base train-big clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

install: .venv/installed ## create .venv with nmt and the requirements of its tests

.venv/installed: pyproject.toml constraints.txt
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/installed ## train and evaluate a small model in minutes
	.venv/bin/nmt prepare configs/demo.yaml $(ARGS)
	.venv/bin/nmt train configs/demo.yaml $(ARGS)
	.venv/bin/python recipes/demo/show.py runs/demo

test: .venv/installed ## run the tests, offline
	.venv/bin/python -m pytest

chaos: .venv/installed ## run the long fault-injection tests, which take a quarter of an hour
	.venv/bin/python -m pytest -m chaos -n 0

lint: .venv/installed ## run ruff, mypy and the check for unwanted words
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/python tests/words.py

train-base: .venv/installed ## train the base model on WMT14 EN-DE on every GPU; ARGS="KEY=VALUE ..." sets settings
	.venv/bin/nmt prepare configs/transformer_base.yaml $(ARGS)
	.venv/bin/torchrun --standalone --nproc-per-node $(GPUS) -m nmt train configs/transformer_base.yaml $(ARGS)

train-big: .venv/installed ## train the big model on WMT14 EN-DE on every GPU
	.venv/bin/nmt prepare configs/transformer_big.yaml $(ARGS)
	.venv/bin/torchrun --standalone --nproc-per-node $(GPUS) -m nmt train configs/transformer_big.yaml $(ARGS)

clean: ## remove caches, but keep data/, runs/ and .venv
	rm -rf .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info
	find nmt tests recipes -name __pycache__ -type d -prune -exec rm -rf {} +
