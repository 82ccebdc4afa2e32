# Everything happens in .venv, with the package installed there as its users have it: a wheel, compiled where a C
# compiler is found. Stamps remember what is done, so that a second `make` does nothing twice.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
PURE   := build/pure
PIP    := $(BIN)/pip --disable-pip-version-check
TIMED  := @scripts/timed

ROOMS    := messaging storage actors protocols gateway sluicegate pipeline pyspark_sluicegate testing
SOURCES  := $(shell find $(ROOMS) -type f -not -name '*.pyc' 2>/dev/null) pyproject.toml setup.py README.md LICENSE
# What is checked: the rooms that exist, and what is not installed.
CHECKED  := $(wildcard sluicegate pyspark_sluicegate) bench demo tests setup.py
DATA     ?= ./data
TESTS    ?= tests
# On several workers: tests/conftest.py says how many, and which tests stay together.
PYTEST   := $(BIN)/pytest -n auto
# What is run over the uncompiled package, too: what calls modules that the other one has compiled, the simulation of
# whole nodes, and of whole brokers what comes by lines of those modules that neither does. The rest of tests/broker
# reaches less than one of a hundred more.
BROKER   := amqp flow http delivery/test_deliver_to_one.py \
            $(patsubst %,mqtt/test_%.py,auth_and_disconnect connecting framing publish_content qos retained \
            subscriptions websocket wills) \
            $(patsubst %,operators/test_%.py,explain_recipients tracing) queues/test_moving_messages.py \
            $(patsubst %,security/test_%.py,denials message_vpns secrets_in_output)
AGAIN    := $(addprefix tests/,house simulation unit $(addprefix broker/,$(BROKER)))
# Not those among them that start processes or look at sources, pages and scripts, nor those of modules that are never
# compiled, or of the tests' own. Planted faults are found by uncompiled copies of the sources in both runs.
NOT_AGAIN := $(patsubst %,--ignore=tests/house/test_%.py,amqp_cases compiled_imports decisions dependencies import_graph \
            names_in_pages one_broker pages site style virtual_cases) \
            $(addprefix --ignore=tests/simulation/,broker/test_planted.py network/test_planted_links.py \
            network/moves/test_planted_moves.py replicas/test_planted_replicas.py) \
            $(addprefix --ignore=tests/unit/,bench demo gateway pipeline pyspark referees scripts) \
            $(addprefix --ignore=tests/unit/protocols/,bridges rest schemas security) \
            $(addprefix --ignore=tests/unit/storage/,catalog environment integrity replication store)
# What is run again against several brokers on one machine: what clients and operators do. The list of what
# needs a single broker is in tests/support/processes/one_broker.py.
BROKERS  ?= 2
SEVERAL  := $(addprefix tests/,console interop stories)
# Not those that say themselves how many brokers they have, nor those of browsers and screens.
NOT_SEVERAL := $(patsubst %,--ignore=tests/console/test_console_%.py,accessibility in_firefox on_a_phone replicas) \
            $(patsubst %,--ignore=tests/stories/test_%.py,a_queue_moves_under_load \
            brokers_of_a_machine_are_one_to_operators definitions_of_a_machine moves_of_a_machine_are_ended \
            semp_of_a_machine)
# What does little of what it repeats in each run, and more with SLUICEGATE_THOROUGH (tests/support/thorough.py).
REPEATING := $(addprefix tests/,crash models simulation spark/kills)
# Of `make simulate`.
SEED     ?=
FIRST    ?= 1
SEEDS    ?= 100
STEPS    ?= 400
# Of `make fuzz`.
ROUNDS   ?= 1000000

export DIST_EXTRA_CONFIG := $(CURDIR)/scripts/wheels.cfg

# Containers often set it. Each of the hundreds of processes that tests start would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

# What `bash .ci/run` sets, too. Both belong to the stamp: a package that was allowed to fall back to pure is not good
# enough for a run that requires extensions, and a package of another level is another package.
export SLUICEGATE_REQUIRE_EXT ?= 0
export SLUICEGATE_OPT_LEVEL := $(or $(SLUICEGATE_OPT_LEVEL),3)
MODE := ext-$(SLUICEGATE_REQUIRE_EXT)-O$(SLUICEGATE_OPT_LEVEL)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## install the gateway into .venv and start it on ./data
	@$(MAKE) --no-print-directory --jobs installed
	$(BIN)/sluicegate serve --data $(DATA)

.PHONY: installed
installed: $(STAMPS)/requirements $(STAMPS)/installed-$(MODE)

.PHONY: demo
demo: $(STAMPS)/demo-needs $(STAMPS)/installed-$(MODE) ## devices, gateway, workers, Spark and an audit, on real data
	$(BIN)/python -m demo

.PHONY: test
test: ## all checks, then all tests over the installed package, and how long each part took
	@scripts/timed --run $(MAKE) --no-print-directory --jobs parts-of-test

# Side by side: compiling, what tests need of PyPI, Debian and npm, and the checks. Then the tests.
.PHONY: parts-of-test
parts-of-test: lint installed $(STAMPS)/test-needs
	$(TIMED) tests $(PYTEST) $(TESTS)

.PHONY: lint
lint: $(STAMPS)/test-tools ## style, types and import direction
	$(TIMED) lint $(BIN)/ruff check .
	$(TIMED) lint $(BIN)/ruff format --check .
	$(TIMED) lint $(BIN)/mypy --strict $(CHECKED)
	$(TIMED) lint $(BIN)/lint-imports

.PHONY: test-compiled
test-compiled: ## as test, and fail unless the package is compiled
	SLUICEGATE_EXPECT=compiled $(MAKE) test SLUICEGATE_REQUIRE_EXT=1

.PHONY: test-pure
test-pure: $(STAMPS)/test-tools $(STAMPS)/test-needs $(PURE)/.stamp ## the tests over the uncompiled package
	SLUICEGATE_EXPECT=pure PYTHONPATH=$(abspath $(PURE)) $(PYTEST) $(AGAIN) $(NOT_AGAIN)

.PHONY: test-brokers
test-brokers: $(STAMPS)/test-tools $(STAMPS)/test-needs $(STAMPS)/installed-$(MODE) ## clients and stories against BROKERS=2 on one machine
	SLUICEGATE_TEST_BROKERS=$(BROKERS) $(PYTEST) $(SEVERAL) $(NOT_SEVERAL)

.PHONY: test-thorough
test-thorough: $(STAMPS)/test-tools $(STAMPS)/test-needs $(STAMPS)/installed-$(MODE) ## more kills, seeds and planted faults, larger bounds: takes long
	SLUICEGATE_THOROUGH=1 $(PYTEST) $(REPEATING)

.PHONY: simulate
simulate: $(STAMPS)/test-tools $(STAMPS)/installed-$(MODE) ## whole nodes on virtual time: SEEDS=1000 many, SEED=7 one again
	PYTHONPATH=tests $(BIN)/python -P -m simulation --steps $(STEPS) $(if $(SEED),--seed $(SEED),--first $(FIRST) --seeds $(SEEDS))

.PHONY: simulate-network
simulate-network: $(STAMPS)/test-tools $(STAMPS)/installed-$(MODE) ## the same with three linked brokers: SEEDS=1000, SEED=7
	PYTHONPATH=tests $(BIN)/python -P -m simulation --network --steps $(STEPS) $(if $(SEED),--seed $(SEED),--first $(FIRST) --seeds $(SEEDS))

.PHONY: simulate-moves
simulate-moves: $(STAMPS)/test-tools $(STAMPS)/installed-$(MODE) ## three linked brokers, and a queue that moves: SEEDS=1000, SEED=7
	PYTHONPATH=tests $(BIN)/python -P -m simulation --moves --steps $(STEPS) $(if $(SEED),--seed $(SEED),--first $(FIRST) --seeds $(SEEDS))

.PHONY: simulate-replicas
simulate-replicas: $(STAMPS)/test-tools $(STAMPS)/installed-$(MODE) ## three replicas of a broker: SEEDS=1000, SEED=7
	PYTHONPATH=tests $(BIN)/python -P -m simulation --replicas --steps $(STEPS) $(if $(SEED),--seed $(SEED),--first $(FIRST) --seeds $(SEEDS))

.PHONY: simulate-planted
simulate-planted: $(STAMPS)/test-tools $(STAMPS)/installed-$(MODE) ## how many seeds find each fault that is planted on purpose
	PYTHONPATH=tests $(BIN)/python -P -m simulation.planted

.PHONY: rounds
rounds: $(STAMPS)/test-tools $(STAMPS)/test-needs $(STAMPS)/installed-$(MODE) ## failures of a broker with replicas, under load: ROUNDS=50, SEED=7; as root between network namespaces
	PYTHONPATH=tests $(BIN)/python -P -m rounds --rounds $(if $(filter command line environment,$(origin ROUNDS)),$(ROUNDS),50) $(if $(SEED),--seed $(SEED))

.PHONY: fuzz
fuzz: $(STAMPS)/test-tools $(STAMPS)/installed-$(MODE) ## broken input to decoders and to whole brokers: ROUNDS of each test, SEED=7 again
	@seed=$(or $(SEED),$$(date +%s)); echo "SEED=$$seed"; \
	SLUICEGATE_FUZZ_ROUNDS=$(ROUNDS) SLUICEGATE_FUZZ_SEED=$$seed \
	$(BIN)/pytest --timeout 0 $(wildcard tests/unit/protocols/*/test*_fuzz.py) tests/broker/robustness/test_sequence_fuzz.py

.PHONY: test-bridges
test-bridges: $(STAMPS)/test-tools $(STAMPS)/installed-$(MODE) ## bridges to RabbitMQ, ActiveMQ and NATS, under load and kills: minutes
	$(TIMED) environment scripts/bridge-needs
	SLUICEGATE_FOREIGN_BROKERS=1 $(BIN)/pytest tests/foreign_brokers

.PHONY: test-examples
test-examples: $(STAMPS)/test-tools $(STAMPS)/test-needs $(STAMPS)/installed-$(MODE) ## the programs of examples/ in every language that is here, and JMS: minutes for the first time
	SLUICEGATE_ALL_EXAMPLES=1 $(BIN)/pytest -rs tests/examples tests/jms

.PHONY: bench
bench: $(STAMPS)/test-tools $(STAMPS)/installed-$(MODE) ## measure the gateway beside its peers: CASE="qos1-10-10 idle" some cases
	scripts/bench-needs
	$(BIN)/python -m bench $(CASE)

.PHONY: scan
scan: $(STAMPS)/requirements $(STAMPS)/installed-$(MODE) ## known holes in the releases that the gateway needs: asks PyPI or OSV
	$(PIP) install --quiet 'pip-audit>=2.7'
	$(PIP) check
	$(BIN)/python scripts/scan $(BIN)/pip-audit

.PHONY: wheels
wheels: ## an sdist and compiled wheels in ./dist, for PYTHONS="3.11 3.13" or all that are here: minutes for each
	$(PYTHON) scripts/build-wheels $(PYTHONS)

.PHONY: deb
deb: ## a Debian package of WHEEL=dist/..., with PYTHON=python3.11 or what the wheel is for
	$(PYTHON) scripts/build-deb $(WHEEL)

.PHONY: image
image: ## the image of the gateway, by docker, podman or buildah
	@scripts/build-image $(IMAGE)

.PHONY: site
site: $(STAMPS)/site-tools ## the documentation as a site, into build/site, which needs no network
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

.PHONY: compose-alerts
compose-alerts: ## copy the alert rules of Kubernetes for the Prometheus of compose.yaml
	@{ echo '# The rules of prometheusrule.yaml, for a Prometheus without an operator; `make compose-alerts` copies them.'; \
	sed -n '/^  groups:/,$$s/^  //p' deploy/k8s/monitoring/prometheusrule.yaml; } > deploy/compose/alerts.yaml

.PHONY: clean
clean: ## remove everything made here, but not ./data
	rm -rf $(VENV) build dist *.egg-info client/build client/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# pip says nothing while it works, or everything.
define pip-install
	@echo "Installing the $$(grep -c . $(2)) packages that $(1), and their dependencies, from PyPI: a minute or two ..."
	$(TIMED) environment $(PIP) install --quiet --requirement $(2)
	@touch $@
endef

$(STAMPS)/venv:
	@echo "Making $(VENV), a Python environment: half a minute ..."
	$(TIMED) environment env PYTHON=$(PYTHON) scripts/make-venv $(VENV)
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/build-needs: $(STAMPS)/venv pyproject.toml
	@$(BIN)/python scripts/requirements --build > $(STAMPS)/build-needs.txt
	$(call pip-install,the build needs,$(STAMPS)/build-needs.txt)

$(STAMPS)/requirements: $(STAMPS)/build-needs pyproject.toml
	@$(BIN)/python scripts/requirements > $(STAMPS)/requirements.txt
	$(call pip-install,the gateway needs,$(STAMPS)/requirements.txt)

$(STAMPS)/test-tools: $(STAMPS)/requirements
	@$(BIN)/python scripts/requirements test > $(STAMPS)/test-tools.txt
	$(call pip-install,tests need,$(STAMPS)/test-tools.txt)

# Not before the environment, which may have something installed by Debian, too.
$(STAMPS)/test-needs: scripts/test-needs | $(STAMPS)/venv
	$(TIMED) environment scripts/test-needs
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/demo-needs: $(STAMPS)/requirements
	@$(BIN)/python scripts/requirements spark demo > $(STAMPS)/demo-needs.txt
	$(call pip-install,the demo needs,$(STAMPS)/demo-needs.txt)

$(STAMPS)/site-tools: $(STAMPS)/requirements
	@$(BIN)/python scripts/requirements site > $(STAMPS)/site-tools.txt
	$(call pip-install,the site needs,$(STAMPS)/site-tools.txt)

# What the gateway needs when it runs comes while it compiles.
$(STAMPS)/installed-%: $(STAMPS)/build-needs $(SOURCES)
	@echo "Compiling and installing the gateway: a few minutes, once for each change of its sources ..."
	$(TIMED) compile $(BIN)/python scripts/install
	@rm -f $(STAMPS)/installed-*
	@touch $@ $(STAMPS)/installed-ext-0-O$(SLUICEGATE_OPT_LEVEL)

$(PURE)/.stamp: $(STAMPS)/build-needs $(SOURCES)
	rm -rf $(PURE)
	SLUICEGATE_PURE=1 $(PIP) install --quiet --no-deps --no-build-isolation --target $(PURE) .
	@touch $@
