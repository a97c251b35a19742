package lua51

import (
	"slices"
	"testing"
)

// A server is closed by who opened it, what it logs is theirs to take, and the next server is another one.
func TestOpenAndClose(t *testing.T) {
	first, err := Open()
	must(t, err)
	var logged []string
	first.Log = func(line string) { logged = append(logged, line) }
	do(t, first, "SET", "k1", "1")
	if result := runOn(t, first, `redis.log(redis.LOG_NOTICE, "seen", redis.call("GET", KEYS[1]))`); result.Err != nil {
		t.Error(result.Err)
	}
	if want := []string{"fragment: seen 1"}; !slices.Equal(logged, want) {
		t.Errorf("logged %q, want %q", logged, want)
	}
	first.Close()

	second, err := Open()
	must(t, err)
	defer second.Close()
	result := runOn(t, second, `redis.log(redis.LOG_NOTICE, "discarded") return redis.call("GET", KEYS[1]) or "none"`)
	if result.Reply != "none" {
		t.Errorf("%v, %v; want none: the stores are apart and a server without Log discards", result.Reply, result.Err)
	}
}
