package scripttest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

// A rolling deployment runs two files on the same subjects: callers of the old one and of the new one, in any order.
// Files of one name and one STATE promise the same answers. Here the timelines of the script's table, with old and new
// calls interleaved, give the replies and the store that the old file gives alone.
//
// sluice.All() says which files there are. Until there is a second version, dummyV2 is one.

// interleaved is how many calls in a row are made with the two files in every order; later ones repeat the order.
const interleaved = 6

// dummyV2 is a list_log_v2 that differs in one line of the body.
func dummyV2(t *testing.T) *sluice.Script {
	t.Helper()
	v1 := sluice.ListLogV1()
	v2 := edited(t, &v1, `surplus == 1 and "0" or surplus - 1`, "surplus - 1")
	v2.Version, v2.File = 2, "list_log_v2.lua"
	return v2
}

func TestRollingDeploy(t *testing.T) {
	for _, pair := range rollingPairs(append(sluice.All(), *dummyV2(t))) {
		t.Run(pair.String(), func(t *testing.T) {
			runs, failures := pair.roll(t)
			for _, failure := range failures {
				t.Error(failure)
			}
			t.Logf("%d interleavings", runs)
		})
	}
}

// A deployment rolls to v2 and goes back, under twice the calls that the limit admits. Versions of one STATE share the
// limit. With another STATE each has a key and a limit of its own: any window that has calls of both may hold one limit
// more, and no other window does.
func TestRollingAndBack(t *testing.T) {
	const limit, window, phase = 5, 10, 30 // seconds
	v1 := sluice.ListLogV1()
	for state, mixed := range map[string]int{"ll/1": limit, "ll/2": 2 * limit} {
		t.Run(state, func(t *testing.T) {
			old, new := &v1, dummyV2(t)
			new.State = state
			on := startHarness(t, false)
			phases := [5][2]*sluice.Script{{old, old}, {old, new}, {new, new}, {new, old}, {old, old}}
			var grants [len(phases) * phase]int // in each second
			most := map[bool]int{}              // in a window, by whether it has calls of both
			for second := range grants {
				on.setTime(epoch + int64(second)*1e6)
				for _, script := range phases[second/phase] {
					key := "s:login:{ada}:" + strings.ReplaceAll(script.State, "/", "")
					reply, _ := on.call(script, false, []string{key}, []string{"5", "10000000", "1", "0"})
					grants[second] += int(reply[0])
				}
				both := second/phase%2 == 1 || second > phase && second%phase < window-1
				held := 0
				for _, n := range grants[max(0, second-window+1) : second+1] {
					held += n
				}
				most[both] = max(most[both], held)
			}
			if want := map[bool]int{false: limit, true: mixed}; !maps.Equal(most, want) {
				t.Errorf("most permits in a window without and with calls of both: %v, want %v", most, want)
			}
		})
	}
}

// A rolling is two files that callers use at the same time.
type rolling struct{ old, new *sluice.Script }

func (r rolling) String() string { return r.old.File + " and " + r.new.File }

// rollingPairs are every two files of one name and STATE.
func rollingPairs(scripts []sluice.Script) (pairs []rolling) {
	for i := range scripts {
		for k := range scripts {
			old, new := &scripts[i], &scripts[k]
			if new.Name == old.Name && new.State == old.State && new.Version > old.Version {
				pairs = append(pairs, rolling{old, new})
			}
		}
	}
	return pairs
}

// roll runs the interleavings of every timeline, and says how many there were and what differed.
func (r rolling) roll(t *testing.T) (runs int, failures []string) {
	t.Helper()
	play := &interleaving{on: startHarness(t, false), files: [2]*sluice.Script{r.old, r.new}}
	for _, tab := range tables {
		if tab.script.Name == r.old.Name {
			play.table = tab
		}
	}
	play.script = r.old
	for _, tl := range play.timelines {
		alone, calls := play.run(tl, 0)
		for order := range 1 << min(calls, interleaved) {
			runs++
			if mixed, _ := play.run(tl, order); !slices.Equal(mixed, alone) {
				failures = append(failures, differing(tl, order, alone, mixed))
				break
			}
		}
	}
	return runs, append(failures, r.mismatch()...)
}

// mismatch says why timelines of the old file cannot be those of the new one.
func (r rolling) mismatch() (failures []string) {
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

// An interleaving plays a timeline with one of two files at each call.
type interleaving struct {
	table
	on    *harness
	files [2]*sluice.Script
}

// run returns what each line gave, and the store at the end; and the number of calls of the two files. The bits of
// order choose the file, the first call's lowest.
func (p *interleaving) run(tl timeline, order int) (gave []string, calls int) {
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
		other, do := p.called(l.do)
		script := other.script
		if script == p.script {
			script = p.files[order>>(calls%interleaved)&1]
			calls++
		}
		gave = append(gave, p.call(other, script, other.arguments(do)))
	}
	return append(gave, p.on.redis.Snapshot()), calls
}

// call renders the fields of the old file's reply: a new one may append some.
func (p *interleaving) call(old table, script *sluice.Script, args []string) string {
	result := p.on.result(script, looks(script, args), old.keysOf(args), args)
	if result.Err != nil {
		return result.Err.Error()
	}
	reply, _ := result.Reply.([]any)
	if script.Group == nil && script.KeyGroup == nil {
		reply = reply[:min(len(reply), len(old.script.Reply))]
	}
	return rendered(reply)
}

// differing tells the first line that an interleaving answers otherwise.
func differing(tl timeline, order int, alone, mixed []string) string {
	for i, l := range append(slices.Clone(tl.lines), line{do: "the store at the end"}) {
		if alone[i] != mixed[i] {
			return fmt.Sprintf("%s, new files in the calls %b, from the right: line %d: %s\n the old file alone  %s\n"+
				" interleaved         %s", tl.name, order, i+1, l.do, alone[i], mixed[i])
		}
	}
	return ""
}

// A next version that keeps STATE and not its meaning is caught, and one that keeps both is not.
func TestRollingDeployCatches(t *testing.T) {
	for _, c := range []struct{ script, fault, old, new, says string }{
		{"list_log", "milliseconds", `local entry = clock[1] .. string.format("%06d", now % 1000000)`,
			`local entry = string.format("%.0f", math.floor(due / 1000))`, "line"},
		{"list_log", "no TTL", `redis.pcall("PEXPIREAT", log, string.format("%d%03d", (expires - ms) / 1000, ms))`, "1",
			"the store"},
		{"zset_log", "ids named otherwise", `due_text, id .. "||" .. k`, `due_text, id .. "|" .. k`, "BADARG id"},
		{"token_bucket_set", "leaves the TTL", `redis.pcall("PERSIST", config)`, "0", "PTTL"},
	} {
		t.Run(c.script+"/"+c.fault, func(t *testing.T) {
			old := listed(func(script *sluice.Script) bool { return script.Name == c.script })
			_, failures := rolling{old, edited(t, old, c.old, c.new)}.roll(t)
			if !strings.Contains(strings.Join(failures, "\n"), c.says) {
				t.Errorf("got %q, want a difference that names %q", failures, c.says)
			}
		})
	}
}

// A version with another STATE, and a script of another name, are no pair.
func TestRollingPairs(t *testing.T) {
	one := sluice.Script{Name: "a", Version: 1, File: "a_v1.lua", State: "a/1"}
	two, other, another := one, one, one
	two.Version, two.File = 2, "a_v2.lua"
	other.Version, other.File, other.State = 3, "a_v3.lua", "a/2"
	another.Name, another.File = "a_set", "a_set_v1.lua"
	got := rollingPairs([]sluice.Script{one, two, other, another})
	if len(got) != 1 || got[0].String() != "a_v1.lua and a_v2.lua" {
		t.Errorf("got %v, want a_v1.lua and a_v2.lua only", got)
	}
}
