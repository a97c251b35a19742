package loader

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLocalSubjectsAreBounded asks about more subjects than are remembered.
func TestLocalSubjectsAreBounded(t *testing.T) {
	l := &local{share: 1, subjects: map[keyHash][]bucket{}}
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

// TestLongSubjectsTakeNoMore has 1000 subjects of 30,000 bytes be limited here, and their denials be cached: each takes
// less than 1 KB.
func TestLongSubjectsTakeNoMore(t *testing.T) {
	limits, limit := New(nil), Limit{Permits: 1, Window: time.Hour}
	c := limits.GCRA("x", limit, FailLocal(1), RememberDenials(1000)).core
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range 1000 {
		key := strings.Repeat("x", 30_000) + strconv.Itoa(i)
		_, _ = c.fallback(c, key, question{permits: 1})
		c.denials.newPending(c, key, question{permits: 1}).save(Decision{Wait: time.Hour}, nil)
		if _, ok := c.denials.recall(c, key, question{permits: 1}); !ok {
			t.Fatal("the denial is not cached")
		}
	}
	if took := heap() - before; took > 1_000_000 {
		t.Errorf("1000 subjects take %d bytes", took)
	}
	runtime.KeepAlive(c)
}
