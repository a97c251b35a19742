package scripttest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/model"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// A malformed call is made from a script's header: one that is refused for one thing.
type malformed struct {
	keys, args []string
	want       string
}

func (tab table) checkMalformed(t testing.TB) {
	h := startHarness(t, false)
	h.setTime(epoch)
	tab.grant(t, h)
	// The harness itself compares the store before and after each refusal.
	for _, m := range tab.malformedCalls() {
		if _, got := h.call(tab.script, false, m.keys, m.args); got != m.want {
			t.Errorf("%q %q: got %q, want %q", m.keys, m.args, got, m.want)
		}
	}
}

// Servers read numbers in their own ways: the same calls on a real one.
func TestServerMalformedCalls(t *testing.T) {
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		for _, tab := range tables {
			r := connectServer(t, server.Addr)
			r.do("FLUSHALL")
			r.setTime(epoch)
			tab.grant(t, r)
			before := r.dump(tab.keysOf(tab.valid(1)))
			for _, m := range tab.malformedCalls() {
				if _, got := r.call(tab.script, false, m.keys, m.args); got != m.want {
					t.Errorf("%s %q %q: got %q, want %q", tab.script.Name, m.keys, m.args, got, m.want)
				}
			}
			if after := r.dump(tab.keysOf(tab.valid(1))); after != before {
				t.Errorf("%s: refused calls changed the store from %q to %q", tab.script.Name, before, after)
			}
		}
	})
}

func (r *remote) dump(keys []string) string {
	var all strings.Builder
	for _, key := range keys {
		all.WriteString(r.do("DUMP", key))
	}
	return all.String()
}

// grant makes one call that is granted, so that there is a state to lose.
func (tab table) grant(t testing.TB, on target) {
	t.Helper()
	tab.play(on, timeline{lines: tab.before()})
	reply, failed := on.call(tab.script, false, tab.keysOf(tab.valid(1)), tab.valid(1))
	if failed != "" || tab.first(reply)[0] == 0 {
		t.Fatalf("%q: %v, %s; want a grant", tab.valid(1), reply, failed)
	}
}

// before is what must have been for a valid call to be granted.
func (tab table) before() []line {
	return map[string][]line{
		"list_log_return":     {{"0s", "list_log 1 1000 1 0", "1 0 0 1000us"}},
		"zset_log_return":     {{"0s", "zset_log 1 1000 1 0 a", "1 0 0 1000us"}},
		"slice_ring_return":   {{"0s", "slice_ring 1 0 1000 1 1", "1 0 0 1000us 1"}},
		"budget_settle":       {{"0s", "budget 1000 1 1000 1 1", "1 0 0 1000us 1"}},
		"concurrency_release": {{"0s", "concurrency 1 1000 0 a", "1 0 0 1000us"}},
		"quota_return":        {{"0s", "quota 1 1 0" + days, "1 0 0 24h @0s @24h 1"}},
	}[tab.script.Name]
}

// valid are arguments of a call that is granted: each the least that its range allows, but for permits, which is 1, and
// those of type time, the first of which is the epoch, each a second after
// the one before. Repeated ones come so many times.
func (tab table) valid(groups int) []string {
	var args []string
	moment := epoch
	for _, field := range tab.fields(groups) {
		switch {
		case field.Type == "str":
			args = append(args, "a")
		case field.Name == "permits":
			args = append(args, "1")
		case field.Type == "time":
			args = append(args, strconv.Itoa(moment))
			moment += 1_000_000
		default:
			args = append(args, strconv.FormatInt(field.Min, 10))
		}
	}
	return args
}

// fields are the arguments of a call one by one.
func (tab table) fields(groups int) []sluice.Field {
	return model.Fields(tab.script, groups)
}

func (tab table) malformedCalls() (calls []malformed) {
	groups, wantKeys, wantArgs := 1, model.WantedKeys(tab.script), model.WantedArgs(tab.script)
	if tab.script.Group != nil {
		groups = tab.script.Group.Max
	}
	most := tab.valid(groups)
	keys := tab.keysOf(most)
	refuse := func(args []string, want string) { calls = append(calls, malformed{keys, args, want}) }

	// Too few keys, and one too many.
	few, many := keys[:len(keys)-1], append([]string{"t:x:{u}:more"}, keys...)
	if tab.script.KeyGroup != nil {
		few, many = nil, slices.Repeat([]string{keys[0]}, tab.script.KeyGroup.Max+1)
	}
	if tab.script.Group != nil && tab.script.KeyGroup == nil {
		few = keys[len(keys)+1-len(tab.keys):]
		calls = append(calls, malformed{keys[1:], most, wantArgs})
	}
	for n := range len(few) + 1 {
		calls = append(calls, malformed{few[:n], most, wantKeys})
	}
	calls = append(calls, malformed{many, most, wantKeys}, malformed{nil, nil, wantKeys})
	if tab.script.KeyGroup != nil && tab.script.Group != nil {
		three := append(tab.keysOf(tab.valid(2)), "t:x:{u}:more")
		calls = append(calls, malformed{three, tab.valid(2), "BADARG KEYS: want one for each window of each subject"})
		refuse(tab.valid(groups+1), wantArgs)
	}
	for n := range tab.valid(1) {
		refuse(most[:n], wantArgs)
	}
	refuse(append(tab.valid(groups), "1"), wantArgs)
	refuse(append(tab.valid(groups), "1", "1"), wantArgs)
	if tab.script.Group != nil {
		two := tab.valid(2)
		refuse(two[:len(two)-1], wantArgs)
	}

	for i, field := range tab.fields(groups) {
		want := fmt.Sprintf("BADARG %s: want %s", field.Name, model.Wanted(field))
		for _, bad := range malformedValues(field) {
			args := tab.valid(groups)
			args[i] = bad
			refuse(args, want)
			// The first of two is named.
			for later := i + 1; later < len(args); later++ {
				args[later] = "x|" + strings.Repeat("x", 128)
			}
			refuse(args, want)
		}
	}
	return calls
}

func malformedValues(field sluice.Field) []string {
	if field.Type == "str" {
		var texts []string
		want := model.Wanted(field)
		if strings.HasPrefix(want, "1 ") {
			texts = append(texts, "")
		}
		if strings.HasSuffix(want, "|") {
			texts = append(texts, "|", "a|b")
		}
		return append(texts, strings.Repeat("x", int(field.Max)+1))
	}
	return []string{
		"", " ", "x", " 1", "1 ", "+1", "-1", "-0", "1.0", "1.", ".5", "1e3", "0x10", "1\x00", "\x001", "1\n", "٣",
		"nan", "inf", "-inf", "9007199254740993", "9999999999999999", "00000000000000001", "99999999999999999999",
		strconv.FormatInt(field.Min-1, 10), strconv.FormatInt(field.Max+1, 10),
	}
}

// Sixteen digits are the most that any server reads alike, and leading zeros are digits.
func (tab table) checkLeadingZeros(t testing.TB) {
	h := startHarness(t, false)
	h.setTime(epoch)
	tab.play(h, timeline{lines: tab.before()})
	args := tab.valid(1)
	for i, field := range tab.fields(1) {
		if field.Type != "str" {
			args[i] = fmt.Sprintf("%016s", args[i])
		}
	}
	if reply, failed := h.call(tab.script, false, tab.keysOf(tab.valid(1)), args); failed != "" || tab.first(reply)[0] == 0 {
		t.Errorf("%s %q: %v, %s; want a grant", tab.script.Name, args, reply, failed)
	}
}

// The first and the last value of every argument's range is in it.
func (tab table) checkRanges(t testing.TB) {
	groups := 1
	if tab.script.Group != nil {
		groups = tab.script.Group.Max
	}
	for i, field := range tab.fields(groups) {
		if field.Type == "str" {
			continue
		}
		for _, n := range []int64{field.Min, field.Max} {
			h := startHarness(t, false)
			h.setTime(epoch)
			args := tab.valid(groups)
			args[i] = strconv.FormatInt(n, 10)
			refusal := fmt.Sprintf("BADARG %s: want %d..%d", field.Name, field.Min, field.Max)
			if _, failed := h.call(tab.script, false, tab.keysOf(args), args); failed == refusal || strings.Contains(failed,
				"user_script") {
				t.Errorf("%s with %s = %d: %s", tab.script.Name, field.Name, n, failed)
			}
		}
	}
}
