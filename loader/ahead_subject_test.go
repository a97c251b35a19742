package loader

import "testing"

// An answer to a question that was sent before a Reset says nothing about what came after it.
func TestAheadForgets(t *testing.T) {
	s := &aheadSubject{}
	s.beginFlight(0)
	s.forget()
	s.answered(Decision{Remaining: 5, Wait: 1}, 6)
	if s.Grant(1, 10) || s.denied != 0 {
		t.Errorf("%+v", s)
	}
}
