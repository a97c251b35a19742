# `make help` lists the targets. `make demo` needs only Go. `make test` finds or installs a Redis server.

.DEFAULT_GOAL := help
.PHONY: help demo test test-plain test-race cover mutate fuzz soak-model chaos soak-load attack vectors bench
.PHONY: load test-doors playground test-playground clients clients-callers clients-python clients-node clients-bench
.PHONY: generate tidy lint server clean

# The race detector needs a C compiler. In CI a missing one is a failure, not a weaker test.
CC_FOUND := $(shell command -v cc gcc clang 2>/dev/null | head -n 1)
RACE := $(if $(CC_FOUND),-race,)
# Packages that start no goroutines to speak of. The race detector would find nothing in them, at eight times the cost;
# what their tests do run at once runs under it as well.
PLAIN := ./examples ./gen ./internal/lua51 ./internal/luasyntax ./playground/play ./scripttest
AT_ONCE := ^TestScriptsRunAtOnce$$
# What cmd/sluice shows, hides and replays: thousands of runs, one after another.
TEXTS := IsPrintable$$|^TestPasswordsAreHidden$$|^TestServerStoredHuge$$|^TestNaive|^Fuzz
# The headers of 100000 decisions on a server.
BULK := ^TestServerHeaders$$|^Fuzz
FUZZ ?= 30s
MODEL ?= 500000
SOAK ?= 30m
ATTACK ?= 5m
# Modules through which limits are declared: they are tested apart from the core.
DOORS = $(wildcard grpclimit policy examples/frameworks)
MODULES = $(shell go list -m -f '{{.Dir}}')
# What the playground is built with, from its lockfile.
NODE_MODULES := playground/node_modules/.package-lock.json
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## 5 a second for many workers: every script beside two faulty limiters (no server needed)
	@echo "building the demo: most of a minute the first time, with a line for each package"
	@go run -v ./internal/demo/cmd

test: server ## all tests, the ones with goroutines with the race detector (about four minutes of CPU)
	@if [ -z "$(RACE)" ]; then echo "make test: no C compiler: testing without the race detector"; [ -z "$$CI" ]; fi
	@for lua in luajit lua5.4; do \
		command -v $$lua >/dev/null || { echo "make test: no $$lua: testing without it"; [ -z "$$CI" ] || exit 1; }; done
	go vet ./... ./cmd/sluice/...
	@$(MAKE) --no-print-directory -j2 test-plain test-race

test-plain: # what needs no race detector, beside the other tests: these compute, and those mostly wait
	go test $(PLAIN)
	go test -run '$(TEXTS)' ./cmd/sluice ./cmd/sluice/internal/accesslog ./cmd/sluice/internal/replay
	go test -run '$(BULK)' ./httplimit
	cd bench && go test -skip '^TestServerLanguages$$' ./...

test-race: # the longest package first
	go test $(RACE) -skip '$(TEXTS)|$(BULK)' ./loader $$(go list ./... ./cmd/sluice/... | grep -v -e /loader$$ $(PLAIN:.%=-e '%$$'))
	go test $(RACE) -run '$(AT_ONCE)' ./scripttest
	cd otel && go test $(RACE) ./...

test-doors: server ## the tests of grpclimit, policy and examples/frameworks, with the race detector (a minute)
	@for dir in $(DOORS); do echo "cd $$dir && go test $(RACE) ./..."; (cd $$dir && go test $(RACE) ./...) || exit 1; done

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

cover: ## which lines and branches of the scripts the fast tests reach: a table, and tmp/coverage.html
	go test ./scripttest -run '^TestCoverage$$' -v -count=1 -coverage-page=$(CURDIR)/tmp/coverage.html
	@echo "The sources with their counts: $(CURDIR)/tmp/coverage.html"

mutate: ## put small faults into every script: do the fast tests notice? (a minute; SCRIPT=gcra for one)
	go test ./scripttest -run '^TestMutants$$' -v -count=1 -mutants=$(or $(SCRIPT),all)

soak-model: server ## a million random steps against the model, half of them on a server; MODEL=n for n of each
	go test ./scripttest -run '^Test(Server)?Model$$' -v -count=1 -timeout 60m -model=$(MODEL)

chaos: server ## Cluster, Ring and Sentinel under load while servers die and slots move (two minutes)
	go test ./internal/chaos -run '^Test(Cluster|Ring|Sentinel|Slots)$$' -v -count=1 -timeout 15m -chaos=full

soak-load: server ## all scripts under faults for 30 minutes, or for SOAK: memory stays flat, no keys are left
	go test ./internal/chaos -run '^TestSoak$$' -v -count=1 -timeout 0 -soak=$(SOAK)

attack: server ## ten kinds of faults for 5 minutes, or for ATTACK; ATTACK_SEED=n repeats a run
	go test $(RACE) ./internal/attack -run '^TestAttack$$' -v -count=1 -timeout 0 \
		-attack=$(ATTACK) -seed=$(or $(ATTACK_SEED),0)

load: server ## 100,000 requests to examples/api while its Redis is killed and restarted (half a minute)
	go test ./examples/frameworks -run '^TestServerLoad$$' -v -count=1 -requests=100000

clients: clients-python clients-node clients-callers clients-bench ## what is for other languages: a row for each client

clients-callers: server # the callers in docs/clients
	cd clients/callers && go test -run '^TestServerCallers$$' -v -count=1 -timeout 20m

clients-bench: server # the limiters of other languages that bench measures
	cd bench && go test -run '^TestServerLanguages$$' -v -count=1

clients-python: server # the oldest Python from 3.9 on that is here, and the newest
	@sh clients/python/tests/run.sh

clients-node: server # needs Node 20
	@node clients/node/tests/run.mjs

playground: $(NODE_MODULES) ## the scripts in a browser: playground/dist, and README's picture of it
	cd playground && node build.mjs && node still.mjs ../docs/playground.png

test-playground: playground ## the page in Chromium, and 200 random links (LINKS) beside Go, call by call
	cd playground && node --test --test-timeout=600000 tests/

$(NODE_MODULES): playground/package-lock.json
	cd playground && npm ci --no-audit --no-fund --loglevel=error

vectors: ## write scripttest/vectors from the model
	go test ./scripttest -run '^TestVectorsAreCurrent$$' -count=1 -update

bench: server ## measure everything; writes bench/results.*, docs/benchmarks.md and README (half an hour)
	cd bench && go run . && go run . -only languages

generate: ## write the files that are generated from the scripts' headers
	go generate ./...

tidy: ## go.mod and go.sum of every module, as if no go.work joined them
	@for dir in $(MODULES); do \
		cd $$dir && go mod edit $$(go list -m -f '-replace={{.Path}}={{.Dir}}') && GOWORK=off go mod tidy && \
		go mod edit $$(go list -m -f '-dropreplace={{.Path}}') || exit 1; done

lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "cure: gofmt -w ."; exit 1; }
	for dir in $(MODULES); do (cd $$dir && go vet ./... && go run $(STATICCHECK) ./...) || exit 1; done
	GOOS=js GOARCH=wasm go vet ./playground/engine

server: # find redis-server or valkey-server, or install one
	@sh internal/redistest/install.sh

clean: ## remove what the tests and examples leave behind
	rm -rf examples/node/node_modules clients/node/tests/node_modules clients/node/scripts tmp \
		playground/dist playground/node_modules
