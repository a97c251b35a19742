# `make help` lists what there is. `make demo` needs Go alone; `make test` sees to a Redis server itself.

.DEFAULT_GOAL := help
.PHONY: help demo test hammer bench-scripts generate lint server clean

# The race detector needs a C compiler. In CI a missing one is a failure, not a weaker test.
CC_FOUND := $(shell command -v cc gcc clang 2>/dev/null | head -n 1)
RACE := $(if $(CC_FOUND),-race,)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## 5 a second, shared by many workers: every script beside the faulty ways (no server needed)
	go run ./cmd/sluice demo

test: server ## all tests: the scripts off the server first, then the rest against real servers
	@if [ -z "$(RACE)" ]; then echo "make test: no C compiler: testing without the race detector"; [ -z "$$CI" ]; fi
	go vet ./...
	go test $(RACE) -skip '^TestServer' . ./gen ./scripttest
	go test $(RACE) ./...

hammer: server ## 8 processes on one key of each script for 10 s each, audited
	go test ./scripttest -run '^TestServerHammer$$' -v -count=1 -hammer=10s

bench-scripts: server ## the faults of memory and time in seeds.md, measured on a real server
	go test ./scripttest -run '^$$' -bench . -benchtime 1x

generate: ## write everything that is generated from the scripts' headers
	go generate ./...

lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "cure: gofmt -w ."; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...

server: # find redis-server or valkey-server, or install one
	@sh internal/redistest/install.sh

clean: ## remove what the tests and examples leave behind
	rm -rf examples/node/node_modules bin
