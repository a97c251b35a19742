package scripttest

import (
	"testing"
)

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		name  string
		check func(t testing.TB)
		want  string
	}{
		{"passes", func(t testing.TB) { t.Helper(); t.Log("x") }, ""},
		{"Errorf ends it", func(t testing.TB) { t.Errorf("%d of %d", 1, 2); t.Errorf("more") }, "1 of 2"},
		{"Error", func(t testing.TB) { t.Error("a", 1) }, "a1"},
		{"Fatal", func(t testing.TB) { t.Fatal("a", 1) }, "a1"},
		{"Fatalf", func(t testing.TB) { t.Fatalf("a%d", 1) }, "a1"},
		{"Fail", func(t testing.TB) { t.Fail() }, "failed without saying why"},
		{"FailNow", func(t testing.TB) { t.FailNow() }, "failed without saying why"},
		{"panic", func(t testing.TB) { var none []int; none[len(none)] = 1 },
			"panic: runtime error: index out of range [0] with length 0"},
		{"Skip", func(t testing.TB) { t.Skip("x"); t.Error("skipped") }, ""},
		{"Skipf", func(t testing.TB) { t.Skipf("x"); t.Error("skipped") }, ""},
		{"not failed yet", func(t testing.TB) {
			if t.Failed() || t.Skipped() {
				t.Error("failed")
			}
		}, ""},
		{"an emulated server", func(t testing.TB) { _, _ = Start(t).Do("PING"); t.Error("end") }, "end"},
	} {
		if got := Failure(t, c.check); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestFailureCleansUp(t *testing.T) {
	var order string
	got := Failure(t, func(t testing.TB) {
		t.Cleanup(func() { order += "1" })
		t.Cleanup(func() { order += "2" })
		t.Fatal("x")
	})
	if got != "x" || order != "21" {
		t.Errorf("%q, cleanups %q, want x, 21", got, order)
	}
}
