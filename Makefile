# One short command each.  Everything lives in .venv; nothing outside it is changed, but for apt packages as root.
SHELL := /bin/bash
PY := .venv/bin/python
ARGS ?=
# Hundreds of short processes are started: each would compile what it imports where bytecode is not kept.
export PYTHONDONTWRITEBYTECODE =

.PHONY: up setup test lint lock docs deploy-tools lab soak mutants engines bench-sim bench-kill bench-zookeeper bench-serf bench-peers bench-partial bench-figures browser pictures papers papers-live clean

up: .venv/.up  ## A local cluster on loopback that elects, loses its leader, and elects again.
	@.venv/bin/doyen up $(ARGS)

setup: .venv/.all  ## .venv with everything.

test: .venv/.all  ## Format, lint, types and the whole suite.
	.venv/bin/ruff format --check src packages tests
	.venv/bin/ruff check src packages tests
# The tests are compiled once, beside the types: else four workers would each do it.
	.venv/bin/mypy & .venv/bin/pytest --collect-only -qq >/dev/null; wait $$!
	.venv/bin/pytest -m "not soak and not live and not alone" -n 4 --dist loadfile $(ARGS)
	.venv/bin/pytest -m "not soak and live" -n 6 --dist loadfile $(ARGS)
	.venv/bin/pytest -m "not soak and alone" -n 3 --dist worksteal $(ARGS)

lint: .venv/.all
	.venv/bin/ruff format src packages tests && .venv/bin/ruff check --fix src packages tests && .venv/bin/mypy

lock: .venv/.all .venv/.site  ## requirements.lock: what is in .venv now.
	@{ echo '# What the suite was last run with.  Made by `make lock`; CONTRIBUTING.md says how to use it.'; .venv/bin/pip freeze --exclude-editable --exclude uv; } > requirements.lock

docs: .venv/.site  ## The site, in build/site; a dead link or anchor fails.
	.venv/bin/python scripts/site.py $(ARGS)

deploy-tools: .venv/bin/python  ## promtool and hadolint into .venv/bin, for the tests of deploy/; part of setup.
	@bash scripts/deploy-tools.sh

engines:  ## The stores that tests of fences and engines use: PostgreSQL, Redis, etcd, ZooKeeper.  Root.
	@bash scripts/peers.sh postgresql redis-server etcd-server etcd-client zookeeper default-jre-headless

soak: .venv/.all  ## Many seeds: takes hours; goes on where it stopped (ARGS="--minutes 60", --left, --anew).
	@.venv/bin/pip install --quiet --disable-pip-version-check -e '.[tla]'
	$(PY) scripts/soak.py $(ARGS)

mutants: .venv/.mutants  ## Small changes to protocol code, each against the tests that run its line; goes on where it stopped.
	nice -n 15 $(PY) scripts/mutants.py $(ARGS)

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

bench-partial: .venv/.all  ## Links cut one by one, beside real etcd and ZooKeeper servers, 15 minutes; needs root.
	@bash scripts/peers.sh zookeeper default-jre-headless etcd-server
	.venv/bin/doyen bench partial $(ARGS)

FIGURES ?= --nodes 3,5 --more-seconds 60 --idle-seconds 30 --warm-up 20
bench-figures: .venv/.all  ## The same in 8 minutes, written into docs/explanation/beside-peers.md and README.  Root.
	@bash scripts/peers.sh zookeeper default-jre-headless etcd-server etcd-client serf
	@mkdir -p build
	.venv/bin/doyen bench peers $(FIGURES) $(ARGS) --json > build/peers.json || test -s build/peers.json
	$(PY) scripts/peers_page.py build/peers.json

browser: .venv/.up  ## Chromium (root), axe-core and the parts of the playground, for tests and pictures of pages.
	@bash scripts/browser.sh

pictures: .venv/.all browser  ## docs/pictures, drawn from real runs.
	$(PY) scripts/picture.py
	$(PY) scripts/page_pictures.py
	$(PY) scripts/incident_picture.py
	$(PY) scripts/playground_picture.py

lab: .venv/.all  ## The proving ground: every scenario with every election, judged.  Root.
	.venv/bin/doyen lab run $(ARGS)

papers: .venv/.all  ## Every table and figure, beside the published one.
	.venv/bin/doyen papers run $(ARGS)

LIVE_ITEMS := arb/fig8 arb/fig11 ctol/fig13 ctol/fig14 ctol/fig15 ctol/fig16 ctol/fig17
papers-live: .venv/.all  ## What needs real processes, a real ZooKeeper and root: 65 minutes (ITEMS=ctol/fig17 ARGS="--runs 2": less).
	@bash scripts/peers.sh zookeeper default-jre-headless iptables
	.venv/bin/doyen papers run $(or $(ITEMS),$(LIVE_ITEMS)) $(ARGS)

.venv/bin/python:
	@bash scripts/venv.sh

.venv/.up: .venv/bin/python pyproject.toml
	@.venv/bin/pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/.site: .venv/.up
	@.venv/bin/pip install --quiet --disable-pip-version-check -e '.[site]'
	@touch $@

.venv/.mutants: .venv/.all
	@.venv/bin/pip install --quiet --disable-pip-version-check -e '.[mutants]'
	@touch $@

.venv/.all: .venv/bin/python pyproject.toml packages/doyen-papers/pyproject.toml packages/doyen-lab/pyproject.toml scripts/setup.sh scripts/deploy-tools.sh
	@bash scripts/setup.sh
	@touch $@ .venv/.up

clean:
	rm -rf .venv .venvs report .mypy_cache .ruff_cache .pytest_cache .hypothesis
