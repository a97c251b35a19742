package lua51

import (
	"errors"
	"strings"
	"testing"
)

func split(command string) []any {
	var words []any
	for _, word := range strings.Fields(command) {
		words = append(words, word)
	}
	return words
}

func TestSnapshot(t *testing.T) {
	r := Start(t)
	r.SetTime(1_000_000)
	do(t, r, "ZADD", "z", 2, "b", 2, "a", 0.1, "c", 1732100000123456.0, "d")
	do(t, r, "RPUSH", "l", "x y", "", "\x00\xff")
	do(t, r, "HSET", "h", "f", 1, "e", 2)
	do(t, r, "SADD", "s", "m", "l")
	do(t, r, "SET", "a b", []byte("\r\n"))
	do(t, r, "PEXPIRE", "h", 500)
	want := `"a b" string "\r\n"
"h" hash {"e"="2" "f"="1"} expires 1500
"l" list ["x y" "" "\x00\xff"]
"s" set ["l" "m"]
"z" zset [0.1:"c" 2:"a" 2:"b" 1.732100000123456e+15:"d"]
`
	if got := r.Snapshot(); got != want {
		t.Errorf("Snapshot:\n%swant:\n%s", got, want)
	}
	if got, want := r.Bytes(), int64(56); got != want { // with four scores
		t.Errorf("%d bytes, want %d", got, want)
	}
	r.SetTime(1_400_000)
	if got := r.Snapshot(); got != want {
		t.Errorf("moving the clock changed the snapshot:\n%s", got)
	}
	r.FlushAll()
	if got := r.Snapshot(); got != "" {
		t.Errorf("after FlushAll:\n%s", got)
	}
	if got := r.Bytes(); got != 0 {
		t.Errorf("after FlushAll: %d bytes", got)
	}
}

// TestSnapshotTellsApart changes one thing at a time.
func TestSnapshotTellsApart(t *testing.T) {
	r := Start(t)
	setUp := []string{"SET s 1", "PEXPIRE s 500", "RPUSH l a b", "HSET h f v", "ZADD z 1 m", "SADD t m"}
	seen := map[string]string{}
	for _, change := range []string{
		"PING", "SET s 1", "SET s 2 KEEPTTL", "PEXPIRE s 501", "LSET l 0 c", "RPUSH l c", "HSET h f w", "HSET h g v",
		"ZADD z 1.0000000000000002 m", "ZADD z 1 n", "SADD t n", "RENAME t u", "DEL l",
	} {
		r.FlushAll()
		for _, command := range append(setUp, change) {
			do(t, r, split(command)...)
		}
		text := r.Snapshot()
		if before, same := seen[text]; same {
			t.Errorf("%q and %q give the same snapshot:\n%s", before, change, text)
		}
		seen[text] = change
	}
}

func TestDo(t *testing.T) {
	r := Start(t)
	do(t, r, "SET", "k", 1.5)
	if got := do(t, r, "GET", "k"); got != "1.5" {
		t.Errorf("GET = %v", got)
	}
	if _, err := r.Do("LPUSH", "k",
		1); err != ErrorReply("WRONGTYPE Operation against a key holding the wrong kind of value") {
		t.Errorf("LPUSH on a string: %v", err)
	}
	var unsupported *UnsupportedError
	for _, name := range []string{"EVAL", "evalsha", "XADD", "BLPOP", "DEBUG"} {
		if _, err := r.Do(name, "a", "1"); !errors.As(err, &unsupported) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	if _, err := r.Do(); err == nil {
		t.Error("no command is no error")
	}
}
