package loader

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// askLocally asks a table of FailLocal about a key.
func askLocally(t *testing.T, l *local, key string, granted bool) {
	t.Helper()
	c := New(nil).GCRA("x", Limit{Permits: 1, Window: time.Hour}).core
	if d, ok := l.decideLocally(c, key, question{permits: 1}); !ok || d.Granted != granted {
		t.Fatalf("%.10s: granted %v, want %v", key, d.Granted, granted)
	}
}

// TestLocalSubjectsAreBounded asks about more subjects than are remembered.
func TestLocalSubjectsAreBounded(t *testing.T) {
	l := newLocal(1)
	for i := range 2 * maxLocalSubjects {
		key := strconv.Itoa(i)
		askLocally(t, l, key, true)
		askLocally(t, l, key, false)
	}
	if len(l.subjects) != maxLocalSubjects {
		t.Errorf("%d subjects, want %d", len(l.subjects), maxLocalSubjects)
	}
}

// TestTablesHoldNoSubjects has long subjects: a table takes as much for each as for a short one.
func TestTablesHoldNoSubjects(t *testing.T) {
	const subjects, length, maxEach = 500, 30_000, 1000
	l, s := newLocal(1), settings{}
	RememberDenials(subjects)(&s)
	for name, add := range map[string]func(key string){
		"FailLocal": func(key string) { askLocally(t, l, key, true) },
		"RememberDenials": func(key string) {
			s.denials.newPending(core{}, key, question{permits: 1}).save(Decision{Key: key, Wait: time.Hour}, nil)
			if d, ok := s.denials.recall(core{}, key, question{permits: 1}); !ok || d.Key != key {
				t.Fatalf("%v, %v", d, ok)
			}
		},
	} {
		before := heapInUse()
		for i := range subjects {
			add(strconv.Itoa(i) + strings.Repeat("x", length))
		}
		if each := (heapInUse() - before) / subjects; each > maxEach {
			t.Errorf("%s: %d bytes for each subject", name, each)
		}
	}
	runtime.KeepAlive(l)
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
