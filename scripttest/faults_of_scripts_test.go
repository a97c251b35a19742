package scripttest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/internal/redistest"
)

// faults are those of S0 to S5 (last section of the package doc) that lie in a script. Each faulty script takes the
// arguments of ours, answers the plain timeline as ours does, and fails the one that its fault breaks.
var faults = []struct {
	faulty   string // the name of its file, for faultyFile
	table    table
	timeline string
	says     string // what the failure shows: part of what the faulty script answered
}{
	{"s0_walk_never_meets", sliceRingV1, "a shorter ring leaves the longer one as it is", "instructions"},
	{"s0_lap_of_counts", sliceRingV1, "idle for seven slices, one lap of a ring of seven", "got  0 "},
	{"s1_member_is_time", listLogV1, "the clock stands still: permits of one microsecond all count", "got  1 "},
	{"s1_refused_recorded", listLogV1, "denied calls do not count", "got  0 0 "},
	{"s1_both_edges", listLogV1, "grant, deny, and grant when the oldest has left", "got  0 0 0"},
	{"s1_no_wait", listLogV1, "permits of one millisecond all count", "got  0 0 0 0"},
	{"s2_false_is_nil", listLogV1, "permits of one millisecond all count", "got  nil"},
	{"s2_one_permit", listLogV1, "n permits together or not at all", "got  1 4 "},
	{"s3_member_is_millisecond", listLogV1, "permits of one millisecond all count", "got  1 "},
	{"s3_count_before_trim", listLogV1, "grant, deny, and grant when the oldest has left", "got  0 0 "},
	{"s3_whole_second_expiry", listLogV1, "a window of a second and a half", "got  1 1 0 "},
	{"s3_fixed_window", listLogV1, "any interval, wherever it starts: no edge lets twice the limit through", "got  1 1 0"},
	{"s4_random_member", tokenBucketV1, "equal calls at the same time all come back", "got  1"},
	{"s4_counter_beside_entries", tokenBucketV1, "a key beside the entries is lost: nothing extra", "got  2 0 0 "},
	{"s4_counter_beside_entries", tokenBucketV1, "the entries are lost: open again, not shut for ever", "got  0 0 "},
	{"s4_wait_of_oldest", tokenBucketV1, "the wait for n permits is that of the entry that holds the last of them",
		"got  0 0 6000000"},
	{"s4_assert", tokenBucketV1, "permits above the rate of the arguments, without a config", "Requested permits"},
	{"s4_rate_change_clears", tokenBucketV1, "a changed limit applies at once", "got  2 3 "},
	{"s5_counter", concurrencyV1, "holders that die hold nothing for longer than their ttl", "got  0 0 "},
	{"s5_empty_is_missing", concurrencyV1, "when all are released, and when the key is lost, all are free", "got  1 0 "},
	{"s5_expires_with_the_call", concurrencyV1, "a short ttl does not end the leases of others", "got  1 1 "},
	{"s5_renewal_takes", concurrencyV1, "a renewal that comes after the release takes nothing", "got  1 1 "},
	{"s5_release_of_what_ended", concurrencyReleaseV1,
		"the end of the lease decides, not that its member is still there", "got  1"},
}

// plain is what a faulty script answers as ours does: its fault is not that it does nothing.
func plain(script *sluice.Script) timeline {
	do := map[string][2]string{
		"list_log":     {"3 10s 1 0", "1 2 0 10s"},
		"slice_ring":   {"1s 1 3 3", "1 2 0 3s 1"},
		"token_bucket": {"3 10s 0 1 0", "1 2 0 10s 3 10s"},
		"concurrency":  {"3 10s 0 a", "1 2 0 10s"},
	}[script.Name]
	if script.Name == "concurrency_release" {
		return timeline{"plain", []line{{"0s", "concurrency 3 10s 0 a", "1 2 0 10s"}, {"0s", "a", "1"}, {"0s", "a", "0"}}}
	}
	return timeline{"plain", []line{{"0s", do[0], do[1]}}}
}

func TestFaultyScriptsFail(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.faulty, func(t *testing.T) {
			ours := fault.table
			faulty := ours.of(t, fault.faulty)
			broken := ours.find(t, fault.timeline)
			if failures := ours.play(startHarness(t, false), broken); failures != nil {
				t.Errorf("ours fails %q:\n%s", broken.name, strings.Join(failures, "\n"))
			}
			if failures := faulty.play(lenient(t), plain(ours.script)); failures != nil {
				t.Errorf("the faulty one fails even a plain call:\n%s", strings.Join(failures, "\n"))
			}
			failures := faulty.play(lenient(t), broken)
			if len(failures) == 0 {
				t.Fatalf("the faulty one passes %q", broken.name)
			}
			if !strings.Contains(failures[0], fault.says) {
				t.Errorf("the faulty one fails otherwise than its fault explains (%q):\n%s", fault.says, failures[0])
			}
		})
	}
}

func TestEveryFaultyScriptIsTested(t *testing.T) {
	tested := map[string]bool{"s1_no_expiry": true, "s4_unpack_expired": true, "clients_clock": true,
		"s0_process_index": true}
	for _, fault := range faults {
		tested[fault.faulty] = true
	}
	files, err := filepath.Glob("testdata/faulty/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no faulty scripts: %v", err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".lua"); !tested[name] {
			t.Errorf("%s is in no test", file)
		}
	}
}

// of is the table with a faulty script in the place of ours.
func (tab table) of(t testing.TB, faulty string) table {
	script := *tab.script
	script.File = faulty + ".lua"
	script.Source = readFaulty(t, faulty)
	script.SHA1 = sha1Hex(script.Source)
	tab.script = &script
	return tab
}

func readFaulty(t testing.TB, name string) string {
	t.Helper()
	return read(t, faultyFile(name))
}

// faultyFile returns the file of a faulty script. The playground shows some of them, and has those.
func faultyFile(name string) string {
	shown := map[string]string{
		"s1_refused_recorded": "s1", "s3_fixed_window": "fixed_window", "s3_member_is_millisecond": "s3",
	}
	if way, ok := shown[name]; ok {
		return filepath.Join("..", "playground", "play", "ways", way+".lua")
	}
	return filepath.Join("testdata", "faulty", name+".lua")
}

func (tab table) find(t *testing.T, name string) timeline {
	t.Helper()
	for _, tl := range tab.timelines {
		if tl.name == name {
			return tl
		}
	}
	t.Fatalf("%s has no timeline %q", tab.script.Name, name)
	return timeline{}
}

// lenientHarness runs a script without holding it to what ours promise, and with a small budget.
type lenientHarness struct{ *harness }

func lenient(t *testing.T) lenientHarness { return lenientHarness{startHarness(t, false)} }

func (h lenientHarness) call(script *sluice.Script, _ bool, keys, args []string) ([]int64, string) {
	compiled := compile(h.t, script.File, script.Source)
	compiled.Budget = 100_000
	result := compiled.Run(h.redis, keys, args)
	if result.Err != nil {
		return nil, result.Err.Error()
	}
	if result.Reply == nil {
		return nil, "nil"
	}
	return integers(h.t, result.Reply), ""
}

// S4 near 8000 entries that have expired: the faulty way reads them all and ends with an error, ours removes them and
// goes on.
func TestServerFaultUnpackExpired(t *testing.T) {
	const entries = 9000
	r := connectServer(t, redistest.Start(t).Addr)
	key := tokenBucketV1.keys[1]
	afterExpiry := func(script *sluice.Script, add func(p redis.Pipeliner, i, at uint64)) ([]int64, string) {
		r.do("FLUSHALL")
		_, err := r.client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range uint64(entries) {
				add(p, i, epoch)
			}
			add(p, entries, epoch+9_000_000)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r.setTime(epoch + 10_000_000)
		return r.call(script, false, tokenBucketV1.keys, []string{"10000", "10000000", "0", "1", "0"})
	}
	_, failed := afterExpiry(tokenBucketV1.of(t, "s4_unpack_expired").script, func(p redis.Pipeliner, i, at uint64) {
		p.ZAdd(t.Context(), key, redis.Z{Score: float64(at), Member: layout.Integer(8, i) + layout.Integer(4, 1)})
	})
	if !strings.Contains(failed, "too many results to unpack") {
		t.Errorf("the faulty way: %q, want too many results to unpack", failed)
	}
	reply, failed := afterExpiry(tokenBucketV1.script, func(p redis.Pipeliner, i, at uint64) {
		p.RPush(t.Context(), key, layout.TokenBucketEntry(at, i, 1))
	})
	if failed != "" || reply[1] != 9998 {
		t.Errorf("ours: %v, %s; want 9998 remaining", reply, failed)
	}
	if left, want := r.do("LLEN", key), "2"; left != want {
		t.Errorf("%s entries are left, want %s: the expired ones removed", left, want)
	}
}

// The package doc's table of faults names tests, benchmarks and faulty scripts that are there, and every faulty script
// stands in it.
func TestFaultsDoc(t *testing.T) {
	_, doc, found := strings.Cut(read(t, "doc.go"), "# The faults of")
	if !found {
		t.Fatal("doc.go has no table of faults")
	}
	var tests strings.Builder
	files, _ := filepath.Glob("*_test.go")
	for _, file := range files {
		tests.WriteString(read(t, file))
	}
	for _, name := range regexp.MustCompile(`(Test|Benchmark)[A-Z]\w+`).FindAllString(doc, -1) {
		if !strings.Contains(tests.String(), "func "+name+"(") {
			t.Errorf("doc.go names %s, which is not there", name)
		}
	}
	for _, name := range regexp.MustCompile(`TestChecks/\w+/\w+`).FindAllString(doc, -1) {
		if words := strings.Split(name, "/"); !hasCheck(words[1], strings.ReplaceAll(words[2], "_", " ")) {
			t.Errorf("doc.go names %s, which is not there", name)
		}
	}
	for _, name := range regexp.MustCompile(`\b(s\d_\w+|clients_clock)\b`).FindAllString(doc, -1) {
		if _, err := os.Stat(faultyFile(name)); err != nil {
			t.Errorf("doc.go names a script that is not there: %v", err)
		}
	}
	faulty, _ := filepath.Glob("testdata/faulty/*.lua")
	for _, file := range faulty {
		if name := strings.TrimSuffix(filepath.Base(file), ".lua"); !strings.Contains(doc, name) {
			t.Errorf("doc.go does not name %s", name)
		}
	}
	if len(faulty) == 0 {
		t.Error("there are no faulty scripts")
	}
}

func hasCheck(script, name string) bool {
	return slices.ContainsFunc(tables, func(tab table) bool {
		return tab.script.Name == script && slices.ContainsFunc(tab.checks(), func(c check) bool { return c.name == name })
	})
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// S0: two keys without a shared hash tag. S4: five keys a limiter. Ours have three at most, with one tag, so that every
// call has one slot of a cluster.
func TestKeysOfACallShareTheirSlot(t *testing.T) {
	tag := regexp.MustCompile(`\{[^{}]+\}`)
	for _, script := range sluice.All() {
		if len(script.Keys) > 3 {
			t.Errorf("%s has %d keys, want 3 at most", script.File, len(script.Keys))
		}
		for _, key := range script.Keys {
			if got := tag.FindString(key.Pattern); got != "{<subject>}" {
				t.Errorf("%s: the tag of %s is %q, want {<subject>}", script.File, key.Pattern, got)
			}
		}
	}
}
