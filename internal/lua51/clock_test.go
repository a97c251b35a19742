package lua51

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTime(t *testing.T) {
	r := Start(t)
	for us, want := range map[int64][]any{
		0:                   {"0", "0"},
		7:                   {"0", "7"},
		1732100000000042:    {"1732100000", "42"},
		9007199254740992:    {"9007199254", "740992"},
		1_000_000_000 * 1e6: {"1000000000", "0"},
	} {
		r.SetTime(us)
		if got := r.Now(); got != us {
			t.Errorf("Now() = %d, want %d", got, us)
		}
		reply, err := r.Do("TIME")
		if diff := cmp.Diff(want, reply); diff != "" || err != nil {
			t.Errorf("TIME at %d: %v\n%s", us, err, diff)
		}
		if got := runOn(t, r, `return redis.call("TIME")`).Reply; !cmp.Equal(got, any(want)) {
			t.Errorf("TIME in a script at %d: %v", us, got)
		}
	}
}

// TestExpiry is a timeline test: a time in microseconds, a command and its reply. As on Redis, a key is gone when the
// clock's millisecond is past that in which its TTL runs down.
func TestExpiry(t *testing.T) {
	type line struct {
		at      int64
		command string
		want    any
	}
	for _, c := range []struct {
		name  string
		never bool
		lines []line
	}{
		{"a key outlives its TTL by a millisecond", false, []line{
			{5_000_900, "SET k v PX 1000", Status("OK")},
			{5_000_900, "PTTL k", int64(1000)},
			{5_001_000, "PTTL k", int64(999)},
			{6_000_999, "PTTL k", int64(0)},
			{6_000_999, "GET k", "v"},
			{6_001_000, "GET k", nil},
			{6_001_000, "PTTL k", int64(-2)},
		}},
		{"a step back lengthens every TTL", false, []line{
			{9_000_000, "SET k v PX 1000", Status("OK")},
			{4_000_000, "PTTL k", int64(6000)},
			{9_999_000, "PTTL k", int64(1)},
			{10_000_000, "PTTL k", int64(0)},
			{4_000_000, "PTTL k", int64(6000)},
			{10_001_000, "PTTL k", int64(-2)},
		}},
		{"a large step expires at once, and a step back does not bring it back", false, []line{
			{9_000_000, "SET k v PX 1000", Status("OK")},
			{99_000_000_000, "GET k", nil},
			{9_000_000, "GET k", nil},
		}},
		{"TTL rounds to the nearest second", false, []line{
			{0, "SET k v PX 1500", Status("OK")},
			{0, "TTL k", int64(2)},
			{1_000, "TTL k", int64(1)},
		}},
		{"times of day are absolute", false, []line{
			{5_000_900, "SET k v PXAT 5010", Status("OK")},
			{5_000_900, "PTTL k", int64(10)},
			{5_010_999, "GET k", "v"},
			{5_011_000, "GET k", nil},
		}},
		{"what never expires stays, with nothing left", true, []line{
			{5_000_000, "SET k v PX 1000", Status("OK")},
			{5_400_000, "PTTL k", int64(600)},
			{99_000_000_000, "GET k", "v"},
			{99_000_000_000, "PTTL k", int64(0)},
			{99_000_000_000, "SETRANGE k 0 v", int64(1)},
			{5_000_000, "PTTL k", int64(1000)},
			{99_000_000_000, "SET k w PX 5", Status("OK")},
			{99_000_000_000, "PTTL k", int64(5)},
			{99_900_000_000, "GET k", "w"},
			{99_900_000_000, "SET k x", Status("OK")},
			{99_900_000_000, "PTTL k", int64(-1)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Start(t)
			r.NeverExpire(c.never)
			for _, l := range c.lines {
				r.SetTime(l.at)
				if got, err := r.Do(split(l.command)...); got != l.want || err != nil {
					t.Fatalf("at %d: %s: %v, %v; want %v", l.at, l.command, got, err, l.want)
				}
			}
		})
	}
}

func TestNeverExpireEnds(t *testing.T) {
	r := Start(t)
	r.NeverExpire(true)
	do(t, r, "SET", "short", "v", "PX", 1000)
	do(t, r, "SET", "long", "v", "PX", 9000)
	r.SetTime(r.Now() + 5_000_000)
	if n := do(t, r, "DBSIZE"); n != int64(2) {
		t.Errorf("%v keys while nothing expires", n)
	}
	r.NeverExpire(false)
	if n := do(t, r, "DBSIZE"); n != int64(1) {
		t.Errorf("%v keys afterwards, want the long-lived one", n)
	}
}

func do(t *testing.T, r *Redis, args ...any) any {
	t.Helper()
	reply, err := r.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// TestExpiryIsLazy runs random commands on two servers. One settles every key whenever the clock moves, the other only
// the keys that commands name: the replies and the stores must be equal.
func TestExpiryIsLazy(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		eager, lazy := Start(t), Start(t)
		for i := range 1500 {
			command := randomCommand(random)
			if i%250 == 200 {
				never := i%500 < 250
				eager.NeverExpire(never)
				lazy.NeverExpire(never)
			}
			now := lazy.Now() + random.Int64N(300_000) - 1_000_000*int64(1-min(random.IntN(20), 1))
			eager.SetTime(now)
			eager.settleAll()
			lazy.SetTime(now)
			want, _ := eager.Do(split(command)...)
			if got, _ := lazy.Do(split(command)...); !cmp.Equal(want, got) {
				t.Fatalf("seed %d, call %d: %s: %v, want %v", seed, i, command, got, want)
			}
			if i%100 == 0 {
				if diff := cmp.Diff(eager.Snapshot(), lazy.Snapshot()); diff != "" {
					t.Fatalf("seed %d, call %d (-eager +lazy):\n%s", seed, i, diff)
				}
			}
		}
	}
}

func randomCommand(random *rand.Rand) string {
	key, other := fmt.Sprint("k", random.IntN(8)), fmt.Sprint("k", random.IntN(8))
	ms := random.IntN(5000)
	commands := []string{
		"SET " + key + " v", fmt.Sprintf("SET %s v PX %d", key, ms+1), "GET " + key, "PTTL " + key, "TTL " + key,
		fmt.Sprintf("PEXPIRE %s %d", key, ms), "PERSIST " + key, "UNLINK " + key, "UNLINK " + key + " " + other,
		"RENAME " + key + " " + other, "DBSIZE", "EXISTS " + key + " " + other, "KEYS *", "STRLEN " + key,
		fmt.Sprintf("SETRANGE %s 1 x", key), fmt.Sprintf("PEXPIREAT %s %d", key, startTime/1000+random.IntN(300_000)),
	}
	return commands[random.IntN(len(commands))]
}

// TestSweep wants expired keys to be removed although no command names them.
func TestSweep(t *testing.T) {
	r := Start(t)
	for i := range 1000 {
		do(t, r, "SET", fmt.Sprint("k", i), "v", "PX", 10)
	}
	for range 3000 {
		r.SetTime(r.Now() + 1000)
	}
	if n := len(r.mini.DB(0).Keys()); n > 0 {
		t.Errorf("%d keys are still stored", n)
	}
}
