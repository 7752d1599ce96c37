# One short command each.  Everything lives in .venv; nothing outside it is changed, but for apt packages as root.
SHELL := /bin/bash
PY := .venv/bin/python
ARGS ?=

.PHONY: up setup test lint lock docs deploy-tools lab soak bench-sim bench-kill bench-zookeeper bench-serf bench-peers papers clean

up: .venv/.up  ## A local cluster on loopback that elects, loses its leader, and elects again.
	@.venv/bin/doyen up $(ARGS)

setup: .venv/.all  ## .venv with everything.

test: .venv/.all  ## Format, lint, types and the whole suite.
	.venv/bin/ruff format --check src packages tests
	.venv/bin/ruff check src packages tests
	.venv/bin/mypy
	.venv/bin/pytest -m "not soak and not live and not alone" -n 4 --dist loadfile $(ARGS)
	.venv/bin/pytest -m "not soak and live" -n 3 --dist loadfile $(ARGS)
	.venv/bin/pytest -m "not soak and alone" -n 2 $(ARGS)

lint: .venv/.all
	.venv/bin/ruff format src packages tests && .venv/bin/ruff check --fix src packages tests && .venv/bin/mypy

lock: .venv/.all .venv/.site  ## requirements.lock: what is in .venv now.
	@{ echo '# What the suite was last run with.  Made by `make lock`; CONTRIBUTING.md says how to use it.'; .venv/bin/pip freeze --exclude-editable; } > requirements.lock

docs: .venv/.site  ## The site, in build/site; a dead link or anchor fails.
	.venv/bin/python scripts/site.py $(ARGS)

deploy-tools: .venv/bin/python  ## promtool and hadolint into .venv/bin, for the tests of deploy/; part of setup.
	@bash scripts/deploy-tools.sh

soak: .venv/.all  ## Many seeds: takes its time.
	.venv/bin/pytest -m soak $(ARGS)

bench-sim: .venv/.all  ## The simulator beside SimPy.
	.venv/bin/doyen bench sim $(ARGS)

bench-kill: .venv/.all  ## 50 leaders killed on loopback.
	.venv/bin/doyen bench kill $(ARGS)

bench-zookeeper: .venv/.all  ## Beside a real ZooKeeper ensemble, 10 minutes (MINUTES=1: quick); needs root.
	@bash scripts/peers.sh zookeeper default-jre-headless iptables
	.venv/bin/doyen bench zookeeper $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

bench-serf: .venv/.all  ## Beside real serf agents; needs root.
	@bash scripts/peers.sh serf iptables
	.venv/bin/doyen bench serf $(ARGS)

bench-peers: .venv/.all  ## Leadership beside ZooKeeper, etcd, serf and swim-protocol, 20 minutes; needs root.
	@bash scripts/peers.sh zookeeper default-jre-headless etcd-server etcd-client serf
	.venv/bin/doyen bench peers $(ARGS)

lab: .venv/.all  ## The proving ground: every scenario with every election, judged.  Root.
	.venv/bin/doyen lab run $(ARGS)

papers: .venv/.all  ## Every table and figure, beside the published one.
	.venv/bin/doyen papers run $(ARGS)

.venv/bin/python:
	@bash scripts/venv.sh

.venv/.up: .venv/bin/python pyproject.toml
	@.venv/bin/pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/.site: .venv/.up
	@.venv/bin/pip install --quiet --disable-pip-version-check -e '.[site]'
	@touch $@

.venv/.all: .venv/bin/python pyproject.toml packages/doyen-papers/pyproject.toml packages/doyen-lab/pyproject.toml scripts/setup.sh scripts/deploy-tools.sh
	@bash scripts/setup.sh
	@touch $@ .venv/.up

clean:
	rm -rf .venv .venvs report .mypy_cache .ruff_cache .pytest_cache .hypothesis
