package soak

import (
	"testing"
	"time"
)

func TestMostAtOnce(t *testing.T) {
	use := func(from, to int64) Use { return Use{time.UnixMicro(from), time.UnixMicro(to)} }
	for _, test := range []struct {
		name              string
		uses, explained   []Use
		within, otherwise int
	}{
		{"none", nil, nil, 0, 0},
		{"one after the other", []Use{use(1, 5), use(5, 9)}, nil, 0, 1},
		{"at once", []Use{use(1, 5), use(4, 9), use(2, 3)}, nil, 0, 2},
		{"explained", []Use{use(1, 8), use(4, 8), use(5, 8), use(9, 10)}, []Use{use(5, 9)}, 3, 2},
		{"for too long", []Use{use(1, 9), use(4, 9), use(5, 9)}, []Use{use(5, 8)}, 3, 3},
	} {
		within, otherwise := MostAtOnce(test.uses, test.explained...)
		if within != test.within || otherwise != test.otherwise {
			t.Errorf("%s: %d and %d, want %d and %d", test.name, within, otherwise, test.within, test.otherwise)
		}
	}
}
