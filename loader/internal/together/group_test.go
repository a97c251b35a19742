package together

import "testing"

// reachAfter is how far a group reaches after so many rounds in which all were granted that it asked for.
func reachAfter(rounds int, max int64) int64 {
	g := &group{maxCallers: max}
	for range rounds {
		g.learn(1, true)
	}
	return g.reach
}

// TestReachDoesNotOverflow has a group be granted all that it asks for, round after round.
func TestReachDoesNotOverflow(t *testing.T) {
	for rounds := range 200 {
		if reach := reachAfter(rounds, 1_000_000_000); reach < 0 || rounds > 40 && reach < 1_000_000_000 {
			t.Fatalf("after %d rounds it reaches for %d", rounds, reach)
		}
	}
}
