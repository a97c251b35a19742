package yamlfile

import (
	"fmt"
	"slices"
	"strings"
)

// Unknown says that a word is not known, and which one was probably meant.
func Unknown(kind, word string, known []string) (what, want string) {
	return fmt.Sprintf("unknown %s %q", kind, word), strings.Join(known, ", ") + DidYouMean(word, known...)
}

// Likely returns the known word that ends with the given one behind a dot, or differs least from it; "" if all differ
// too much.
func Likely(word string, known []string) (best string) {
	if i := slices.IndexFunc(known, func(k string) bool { return strings.HasSuffix(k, "."+word) }); i >= 0 {
		return known[i]
	}
	least := max(1, min(len(word), 9)/3) + 1
	for _, k := range known {
		if len(word) >= len(k)+least {
			continue // it differs by more letters than that
		}
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is how many letters must be added, removed, replaced or exchanged with their neighbour to make b of a.
func distance(a, b string) int {
	beforeLast, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], beforeLast[j-2]+1)
			}
		}
		beforeLast, last = last, row
	}
	return last[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}

// DidYouMean asks whether one of the known words was meant, "" if none is like it.
func DidYouMean(word string, known ...string) string {
	if meant := Likely(word, known); meant != "" {
		return ": did you mean " + meant + "?"
	}
	return ""
}
