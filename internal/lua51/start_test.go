package lua51

import "testing"

// Start opens a server that ends with the test.
func Start(tb testing.TB) *Redis {
	tb.Helper()
	r, err := Open()
	must(tb, err)
	tb.Cleanup(r.Close)
	return r
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func compiled(tb testing.TB, source string) *Script {
	tb.Helper()
	script, err := Compile("fragment", source)
	must(tb, err)
	return script
}
