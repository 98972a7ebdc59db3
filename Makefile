# `make help` lists the targets. Python lives in .venv, made on first use.
PYTHON ?= python3
ARGS ?=
GPUS = $$(.venv/bin/python -c "import torch; print(max(1, torch.cuda.device_count()))")

.DEFAULT_GOAL := help
.PHONY: help install demo test chaos lint train-base train-big clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

install: .venv/installed ## .venv with nmt and what its tests need

.venv/installed: pyproject.toml constraints.txt
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/installed ## the whole path in minutes: prepare, train, translate, BLEU
	.venv/bin/nmt prepare configs/demo.yaml $(ARGS)
	.venv/bin/nmt train configs/demo.yaml $(ARGS)
	.venv/bin/python recipes/demo/show.py runs/demo

test: .venv/installed ## all tests, offline
	.venv/bin/python -m pytest

chaos: .venv/installed ## long storms of kills and damage; a quarter of an hour
	.venv/bin/python -m pytest -m chaos -n 0

lint: .venv/installed ## ruff and mypy
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

train-base: .venv/installed ## WMT14 EN-DE, base model, every GPU; ARGS="KEY=VALUE ..."
	.venv/bin/nmt prepare configs/transformer_base.yaml $(ARGS)
	.venv/bin/torchrun --standalone --nproc-per-node $(GPUS) -m nmt train configs/transformer_base.yaml $(ARGS)

train-big: .venv/installed ## the same, big model
	.venv/bin/nmt prepare configs/transformer_big.yaml $(ARGS)
	.venv/bin/torchrun --standalone --nproc-per-node $(GPUS) -m nmt train configs/transformer_big.yaml $(ARGS)

clean: ## removes caches; data/, runs/ and .venv stay
	rm -rf .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info
	find nmt tests recipes -name __pycache__ -type d -prune -exec rm -rf {} +
