//go:build !race

package loader_test

const raceAllocations = 0
