package lua51

import "testing"

// Start opens a server that ends with the test.
func Start(tb testing.TB) *Redis {
	tb.Helper()
	r, err := Open()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}
