package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
)

// functionsOn checks the libraries of one node. With load it also loads what is missing, or has other bytes.
func (d deployment) functionsOn(ctx context.Context, n node, rdb *redis.Client) []placement {
	query := redis.FunctionListQuery{LibraryNamePattern: "sluice_v*", WithCode: true}
	found, err := rdb.FunctionList(ctx, query).Result()
	if err != nil {
		return failedOn(n, errFunctions(err))
	}
	var all []placement
	for _, library := range sluice.Libraries() {
		p := placement{node: n, script: library.Name, sha: library.SHA1, state: stateOf(library, found)}
		if p.lacks() && d.loading {
			p.state = stateLoadedNow
			if p.err = rdb.FunctionLoadReplace(ctx, library.Source).Err(); p.err != nil {
				p.state = stateFailed
			}
		}
		all = append(all, p)
	}
	return all
}

// stateOf says whether a library is among those found, byte by byte.
func stateOf(library sluice.Library, found []redis.Library) state {
	i := slices.IndexFunc(found, func(f redis.Library) bool { return f.Name == library.Name })
	switch {
	case i < 0:
		return stateMissing
	case found[i].Code != library.Source:
		return stateAltered
	}
	return stateLoaded
}

// errFunctions adds to the error of a server without functions what is wanted.
func errFunctions(err error) error {
	if strings.Contains(err.Error(), "unknown command") {
		return fmt.Errorf("functions need Redis 7.0 or later: %w", err)
	}
	return err
}
