package scripttest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

// A rolling deployment runs two files on the same keys: callers of the old one and of the new one, in any order. Files
// of one name and one STATE promise the same answers. Here every interleaving of short timelines gives the replies and
// the store that the old file gives alone.
//
// sluice.All() says which files there are. Until a script has a second version with its STATE, the new file is a copy
// of the old one with another comment.

// rollings are the timelines, by script; want is what the old file's reply begins with. A version with other arguments
// than those of v1 needs timelines of its own.
var rollings = map[string][]timeline{
	"list_log": rollingLogs(""),
	"zset_log": withIDs(append(rollingLogs(" *"),
		timeline{"ids: a retry, other permits, a cancelled one, names beside them", []line{
			{"0s", `4 10s 2 0 a`, "2 2"},
			{"0s", `4 10s 1 0 *`, "1 1"},
			{"1s", `4 10s 2 0 a`, "2 1"},
			{"1s", `4 10s 1 0 a`, "BADARG id"},
			{"", "!ZREM $1 a a||2", "2"},
			{"1s", `4 10s 1 60s b`, "1 2"},
			{"1s", `4 10s 2 0 *`, "2 0"},
			{"1s", `4 10s 1 60s c`, "1 0 9s"},
			{"2s", `4 10s 1 0 c`, "1 0 8s"},
			{"10s", `3 10s 0 0 *`, "0 0 1s"},
		}},
	)),
	"token_bucket": append(withoutConfig(asBucket(rollingLogs(""))),
		timeline{"the config, the scopes, and permits of several calls", []line{
			{"0s", "5 10s 0 2 0", "2 3"},
			{"1s", "9 1s 1 2 0", "2 1"},
			{"2s", "9 1s 1 2 0", "0 1 8s"},
			{"", "!HSET $1 rate 6 interval 10000000 scope 0", ""},
			{"2s", "9 1s 1 2 0", "2 0"},
			{"2s", "9 1s 1 1 60s", "1 0 8s"},
			{"", "!HSET $1 scope 1", ""},
			{"2s", "9 1s 1 3 0", "3 3"},
			{"22s", "4 1s 1 0 0", "0 4"},
			{"22s", "4 1s 1 1 0", "1 3"},
		}}),
	"token_bucket_set": {{"sets, again, and mends", []line{
		{"0s", "5 10s 0", "5 10s 0"},
		{"0s", "6 10s 1", "6 10s 1"},
		{"", "!HSET $1 rate x", "0"},
		{"1s", "6 10s 1", "6 10s 1"},
		{"", "!PEXPIRE $1 60000", "1"},
		{"2s", "7 20s 1", "7 20s 1"},
	}}},
	"gcra": {
		{"a fraction, a booking, other limits, bursts and windows", []line{
			{"0s", "7 1s 2 1 0", "1 1"},
			{"0s", "7 1s 2 1 0", "1 0"},
			{"0s", "7 1s 2 1 0", "0 0 142858us"},
			{"0s", "7 1s 2 2 60s", "2 0 285715us"},
			{"10ms", "3 1s 2 0 0", "0 0"},
			{"10ms", "3 1s 9 4 0", "4"},
			{"1s", "3 5s 2 1 0", "1 0"},
			{"5s", "11 13s 3 3 0", "3"},
			{"6s", "11 13s 3 1 0", "0"},
		}},
		{"a narrower window, steps back, and the wider one's grants drain", []line{
			{"0s", "3 60s 3 2 0", "2 1"},
			{"1s", "9 1s 999 2 0", "2"},
			{"2s", "9 2s 999 1 0", "1"},
			{"-30s", "3 60s 3 2 0", "0"},
			{"41s", "9 1s 999 1 0", "1"},
			{"10s", "3 60s 3 2 0", "0"},
			{"-22s", "3 60s 3 0 0", "0 3"},
		}},
		{"the clock steps back, a little and too far", []line{
			{"0s", "3 10s 3 2 0", "2 1"},
			{"0s", "3 10s 3 1 0", "1 0"},
			{"-1s", "3 10s 3 1 0", "0"},
			{"-70s", "3 10s 3 1 0", "0"},
			{"-71s", "3 10s 3 0 0", "0 3"},
			{"-71s", "3 10s 3 1 0", "1 2"},
			{"-71s", "3 10s 3 1 0", "1 1"},
			{"-60s", "3 10s 3 3 0", "3 0"},
		}},
	},
	"slice_ring_return": rollingReturns,
	"slice_ring": {
		{"several windows, a gap, a longer ring, a shorter call", []line{
			{"0s", "1s 1 1 2 4 3", "1 1"},
			{"0s", "1s 1 1 2 4 3", "1 0"},
			{"1s", "1s 2 1 2 4 3", "0 1"},
			{"3s", "1s 1 1 2 4 3", "1 0"},
			{"3s", "1s 2 9 9", "2 4"},
			{"5s", "1s 0 9 9 2 2", "0 2"},
			{"6s", "1s 1 2 2", "1 1"},
			{"12s", "1s 3 9 9", "3 5"},
			{"12s", "1s 1 9 3", "0 0"},
		}},
		{"the clock is behind, a lap goes by, the ring is void", []line{
			{"5s", "1s 1 3 2", "1 1"},
			{"2s", "1s 1 3 2", "1 0"},
			{"2s", "1s 1 3 2", "0 0 6s"},
			{"8s", "1s 2 3 2", "2 0"},
			{"17s", "1s 1 3 2", "1 1"},
			{"-90s", "1s 2 3 2", "2 0"},
			{"-90s", "1s 0 3 2", "0 0"},
			{"-89s", "1s 1 3 3", "1 0"},
		}},
	},
}

// rollingReturns are given back within a slice, across the ring's end, more than there is, and with the clock behind.
var rollingReturns = []timeline{{"given back within a slice, later, more than there is, and behind", []line{
	{"0s", "slice_ring 1s 3 4 9", "3 6"},
	{"0s", "1s @0s 1", "1"},
	{"1s", "slice_ring 1s 2 4 9", "2 5"},
	{"2s", "1s @0s 1", "1"},
	{"3s", "slice_ring 1s 4 4 9", "4 2"},
	{"3s", "1s @1s 9", "2"},
	{"3s", "1s @3.5s 1", "1"},
	{"4s", "slice_ring 1s 1 6 9", "1 4"},
	{"2s", "slice_ring 1s 2 6 9", "2 2"},
	{"2s", "1s @2s 2", "0"},
	{"2s", "1s @4s 2", "2"},
	{"9s", "slice_ring 1s 1 6 9", "1 7"},
}}}

// rollingLogs are those of the logs.
func rollingLogs(id string) []timeline {
	return []timeline{
		{"grant, deny, book, look, another limit and window", []line{
			{"0s", "3 10s 2 0" + id, "2 1"},
			{"1s", "3 10s 1 0" + id, "1 0"},
			{"2s", "3 10s 1 0" + id, "0 0 8s"},
			{"2s", "3 10s 2 60s" + id, "2 0 8s"},
			{"3s", "5 10s 1 0" + id, "0 0 7s"},
			{"10s", "5 10s 0 0" + id, "0 2"},
			{"10s", "5 10s 2 0" + id, "2 0"},
			{"12s", "5 1s 4 0" + id, "4 1"},
			{"20s", "9 60s 4 0" + id, "4"},
		}},
		{"the clock steps back, a little and too far, and the key expires", []line{
			{"0s", "3 10s 2 0" + id, "2 1"},
			{"-1s", "3 10s 1 0" + id, "0"},
			{"-1s", "3 10s 1 1s" + id, "1 0 1s"},
			{"-131s", "3 10s 2 0" + id, "2 1"},
			{"-131s", "3 10s 1 0" + id, "1 0"},
			{"-130.5s", "3 10s 1 0" + id, "0"},
			{"-60s", "3 10s 1 0" + id, "1 2"},
			{"-55s", "3 10s 1 0" + id, "1 1"},
		}},
	}
}

// withoutConfig takes the rate and interval, which the arguments say already, from what a bucket's lines want.
func withoutConfig(timelines []timeline) []timeline {
	for _, tl := range timelines {
		for i, l := range tl.lines {
			if words := strings.Fields(l.want); len(words) > 2 {
				tl.lines[i].want = strings.Join(words[:len(words)-2], " ")
			}
		}
	}
	return timelines
}

func TestRollingDeploy(t *testing.T) {
	pairs := rollingPairs(sluice.All())
	for _, pair := range pairs {
		t.Run(pair.String(), func(t *testing.T) {
			runs, failures := pair.roll(t)
			for _, failure := range failures {
				t.Error(failure)
			}
			t.Logf("%d interleavings", runs)
		})
	}
}

// A rolling is two files that callers use at the same time.
type rolling struct{ old, new *sluice.Script }

func (r rolling) String() string { return r.old.File + " and " + r.new.File }

// rollingPairs are every two files of one name and STATE, each with a copy of itself that has another comment.
func rollingPairs(scripts []sluice.Script) (pairs []rolling) {
	for i := range scripts {
		old := &scripts[i]
		pairs = append(pairs, rolling{old, commented(old)})
		for k := range scripts {
			if new := &scripts[k]; new.Name == old.Name && new.State == old.State && new.Version > old.Version {
				pairs = append(pairs, rolling{old, new})
			}
		}
	}
	return pairs
}

func commented(script *sluice.Script) *sluice.Script {
	copied := *script
	copied.File = strings.TrimSuffix(script.File, ".lua") + " with another comment"
	copied.Source = strings.Replace(script.Source, "\n--\n", ", with another comment\n--\n", 1)
	copied.SHA1 = sha1Hex(copied.Source)
	return &copied
}

// roll runs every interleaving of every timeline, and says how many there were and what differed.
func (r rolling) roll(t *testing.T) (runs int, failures []string) {
	t.Helper()
	tab := table{script: r.old, keys: rollingKeys(r.old)}
	h := startHarness(t, false)
	for _, tl := range rollings[r.old.Name] {
		play := &interleaving{table: tab, on: h, files: [2]*sluice.Script{r.old, r.new}}
		calls := 0
		for _, l := range tl.lines {
			if called, do := tab.called(l.do); called.script == tab.script && !strings.HasPrefix(do, "!") {
				calls++
			}
		}
		alone := play.run(tl, 0)
		failures = append(failures, asWanted(tl, alone)...)
		for order := range 1 << calls {
			runs++
			if mixed := play.run(tl, order); !slices.Equal(mixed, alone) {
				failures = append(failures, differing(tl, order, calls, alone, mixed))
				break
			}
		}
	}
	return runs, append(failures, r.mismatch()...)
}

// mismatch says why timelines of the old file cannot be those of the new one.
func (r rolling) mismatch() (failures []string) {
	if len(rollings[r.old.Name]) == 0 {
		failures = append(failures, r.old.Name+" has no timelines in rollings")
	}
	if !slices.Equal(names(r.old.Args), names(r.new.Args)) {
		failures = append(failures, fmt.Sprintf("%s: other arguments with the same STATE: give the new one timelines", r))
	}
	if !slices.Equal(r.old.Keys, r.new.Keys) {
		failures = append(failures, fmt.Sprintf("%s: other keys with the same STATE", r))
	}
	return failures
}

func names(fields []sluice.Field) (names []string) {
	for _, field := range fields {
		names = append(names, field.Name)
	}
	return names
}

func rollingKeys(script *sluice.Script) []string {
	for _, tab := range tables {
		if tab.script.Name == script.Name {
			return tab.keys
		}
	}
	return nil
}

// An interleaving plays a timeline with one of two files at each call.
type interleaving struct {
	table
	on    *harness
	files [2]*sluice.Script
}

// run returns what each line gave, and the store at the end. The bits of order choose the file, the first call's
// lowest.
func (p *interleaving) run(tl timeline, order int) (gave []string) {
	p.on.redis.FlushAll()
	now := int64(epoch)
	for _, l := range tl.lines {
		if l.at != "" {
			now = epoch + microseconds(l.at)
		}
		p.on.setTime(now)
		if command, ok := strings.CutPrefix(l.do, "!"); ok {
			gave = append(gave, p.on.do(p.commandWords(command)...))
			continue
		}
		if other, do := p.called(l.do); other.script != p.script {
			gave = append(gave, p.call(other.script, other.arguments(do)))
			continue
		}
		gave = append(gave, p.call(p.files[order&1], p.arguments(l.do)))
		order >>= 1
	}
	return append(gave, p.on.redis.Snapshot())
}

// call renders the fields of the old file's reply: a new one may append some.
func (p *interleaving) call(script *sluice.Script, args []string) string {
	look := p.permitsArg() >= 0 && args[p.permitsArg()] == "0"
	result := p.on.result(script, look, p.keys, args)
	if result.Err != nil {
		return result.Err.Error()
	}
	reply, _ := result.Reply.([]any)
	if script.Group == nil {
		reply = reply[:min(len(reply), len(p.script.Reply))]
	}
	return strings.Trim(rendered(reply), "[]")
}

// asWanted compares the replies of the old file alone with what the lines want.
func asWanted(tl timeline, gave []string) (failures []string) {
	for i, l := range tl.lines {
		var want []string
		for _, word := range strings.Fields(l.want) {
			want = append(want, inMicroseconds(word))
		}
		if !strings.HasPrefix(gave[i]+" ", strings.Join(want, " ")) {
			failures = append(failures,
				fmt.Sprintf("%s, line %d: %s\n got  %s\n want %s ..", tl.name, i+1, l.do, gave[i], l.want))
		}
	}
	return failures
}

// differing tells the first line that an interleaving answers otherwise.
func differing(tl timeline, order, calls int, alone, mixed []string) string {
	var files strings.Builder
	for call := range calls {
		files.WriteByte("on"[order>>call&1])
	}
	for i, l := range append(slices.Clone(tl.lines), line{do: "the store at the end"}) {
		if alone[i] != mixed[i] {
			return fmt.Sprintf("%s, files in the order %s: line %d: %s\n the old file alone  %s\n interleaved         %s",
				tl.name, &files, i+1, l.do, alone[i], mixed[i])
		}
	}
	return ""
}

// A next version that keeps STATE and not its meaning is caught, and one that keeps both is not.
func TestRollingDeployCatches(t *testing.T) {
	for _, c := range []struct{ script, fault, old, new, says string }{
		{"list_log", "milliseconds", `local entry = clock[1] .. string.format("%06d", clock[2])`,
			`local entry = string.format("%.0f", math.floor(due / 1000))`, "line"},
		{"list_log", "no TTL", `redis.pcall("PEXPIREAT", log, string.format("%d%03d", (expires - ms) / 1000, ms))`, "1",
			"the store"},
		{"zset_log", "ids named otherwise", `due_text, id .. "||" .. k`, `due_text, id .. "|" .. k`, "BADARG id"},
		{"token_bucket", "totals after a grant, not before it", "struct.pack(\">I8I8I4\", due, total, granted)",
			"struct.pack(\">I8I8I4\", due, total + granted, granted)", "line"},
		{"gcra", "the limit is not stored", `struct.pack(">I7I3I3I7I6", now + ahead, part, limit,`,
			`struct.pack(">I7I3I3I7I6", now + ahead, part, 10000000,`, "line"},
		{"slice_ring", "the current slice's total is that behind it", "struct.pack(\">I6I6\", current,",
			"struct.pack(\">I6I6\", current + 1,", "line"},
		{"slice_ring_return", "the total stays",
			`redis.call("SETRANGE", ring, 18, struct.pack(">I6", (total - returned) % wrap))`, "", "line"},
		{"token_bucket_set", "leaves the TTL", `redis.pcall("PERSIST", config)`, "0", "the store at the end"},
	} {
		t.Run(c.script+"/"+c.fault, func(t *testing.T) {
			old := rollingScript(t, c.script)
			_, failures := rolling{old, edited(t, old, c.old, c.new)}.roll(t)
			if !strings.Contains(strings.Join(failures, "\n"), c.says) {
				t.Errorf("got %q, want a difference that names %q", failures, c.says)
			}
		})
	}
}

// The day a second version comes it is in the pairs, with both copies.
func TestRollingPairs(t *testing.T) {
	one := sluice.Script{Name: "a", Version: 1, File: "a_v1.lua", State: "a/1", Source: "-- a v1\n--\n"}
	two, other, another := one, one, one
	two.Version, two.File = 2, "a_v2.lua"
	other.Version, other.File, other.State = 3, "a_v3.lua", "a/2"
	another.Name, another.File = "a_set", "a_set_v1.lua"
	var got []string
	for _, pair := range rollingPairs([]sluice.Script{one, two, other, another}) {
		got = append(got, pair.String())
		if pair.new.Version == pair.old.Version && pair.new.Source == pair.old.Source {
			t.Errorf("%s: the same bytes twice", pair)
		}
	}
	want := []string{
		"a_v1.lua and a_v1 with another comment", "a_v1.lua and a_v2.lua", "a_v2.lua and a_v2 with another comment",
		"a_v3.lua and a_v3 with another comment", "a_set_v1.lua and a_set_v1 with another comment",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func rollingScript(t *testing.T, name string) *sluice.Script {
	t.Helper()
	for _, script := range sluice.All() {
		if script.Name == name {
			return &script
		}
	}
	t.Fatalf("no script %s", name)
	return nil
}
