package loader

import (
	"strconv"
	"testing"
	"time"
)

// TestLocalSubjectsAreBounded asks about more subjects than are remembered.
func TestLocalSubjectsAreBounded(t *testing.T) {
	l := &local{share: 1, subjects: map[string][]bucket{}}
	c := New(nil).GCRA("x", Limit{Permits: 1, Window: time.Hour}).core
	ask := func(key string) bool {
		d, ok := l.decideLocally(c, key, question{permits: 1})
		return ok && d.Granted
	}
	for i := range 2 * maxLocalSubjects {
		key := strconv.Itoa(i)
		if !ask(key) || ask(key) {
			t.Fatalf("subject %d: want the first granted, the second denied", i)
		}
	}
	if len(l.subjects) != maxLocalSubjects {
		t.Errorf("%d subjects, want %d", len(l.subjects), maxLocalSubjects)
	}
}
