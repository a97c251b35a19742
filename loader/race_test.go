//go:build race

package loader_test

// raceAllocations is how many more a decision takes with the race detector, under which pools forget.
const raceAllocations = 3
