package scripttest_test

import (
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/scripttest"
)

var mutantsFlag = flag.String("mutants", "sample",
	"which mutants to put to the test: sample (always the same), all, or the name of a script")

const (
	// sampled is how many mutants of each script the sample has.
	sampled = 10
	// maxEquivalent is the share of mutants, in percent, that may change nothing. A script in which more can be changed
	// without effect is too complicated; in one that is mostly parts, which count elsewhere, a few are more than that.
	maxEquivalent    = 3
	alwaysEquivalent = 6
)

// mutantInstructions is what a call of a mutant may take: about twice what any of the fast tests takes of the script
// itself. It ends mutants that loop. Where there is no struct, slice_ring_return packs 1000 cells by hand.
func mutantInstructions(script *sluice.Script) int {
	switch script {
	case &sliceRingReturnV1Script, &budgetSettleV1Script:
		return 400_000
	case &sliceRingManyV1Script:
		return 150_000
	}
	return 50_000
}

// An attempt is a mutant and what became of it.
type attempt struct {
	tab        table
	mutant     scripttest.Mutant
	equivalent bool   // listed as such
	killer     string // the check that noticed it, "" if none did
}

// Every mutant of every script is noticed by a fast test, or stands in testdata/equivalent.txt with the proof that it
// changes nothing.
func TestMutants(t *testing.T) {
	proofs := readProofs(t, equivalentText)
	begin := time.Now()
	attempts := allAttempts(t, proofs)
	judgeProofs(t, attempts, proofs)
	switch *mutantsFlag {
	case "sample":
		attempts = sample(attempts)
	case "all":
		checkSoundScripts(t)
	default:
		attempts = slices.DeleteFunc(attempts, func(tr *attempt) bool { return tr.tab.script.Name != *mutantsFlag })
	}
	if len(attempts) == 0 {
		t.Fatalf("-mutants=%s: want sample, all or the name of a script", *mutantsFlag)
	}
	putToTheTest(t, attempts)
	for _, tr := range attempts {
		tr.report(t)
	}
	printScore(t, attempts, proofs)
	t.Logf("%d mutants (%s) in %.1f s", len(attempts), *mutantsFlag, time.Since(begin).Seconds())
}

// checkSoundScripts has the scripts themselves pass the checks of their mutants, budget included.
// Otherwise it would be no wonder that the mutants fail.
func checkSoundScripts(t *testing.T) {
	for _, tab := range tables {
		sound := compile(t, tab.script.File, tab.script.Source)
		sound.Budget = mutantInstructions(tab.script)
		for _, c := range tab.checks() {
			if failure := noticed(t, tab, sound, c); failure != "" {
				t.Fatalf("%s itself fails %s: %s", tab.script.File, c.name, failure)
			}
		}
	}
}

// noticed is how a check fails with a script in place of the table's.
func noticed(t testing.TB, tab table, script *scripttest.Script, c check) string {
	return scripttest.Failure(t, func(t testing.TB) {
		c.run(substitute{t, tab.script.Source, script})
	})
}

// allAttempts are the mutants of all scripts. A part, which is the same wherever it is printed, is changed only in the
// first script of tables that has it.
func allAttempts(t *testing.T, proofs map[mutantName]string) (attempts []*attempt) {
	homes := map[string]string{} // of parts, the script
	for _, tab := range tables {
		parts := partsByLine(tab.script.Source)
		for m := range compile(t, tab.script.File, tab.script.Source).Mutants() {
			part := parts[m.Line]
			if part != "" && homes[part] == "" {
				homes[part] = tab.script.File
			}
			if part != "" && homes[part] != tab.script.File {
				continue
			}
			attempts = append(attempts, &attempt{tab: tab, mutant: m, equivalent: proofOf(proofs, nameOf(tab, m)) != ""})
		}
	}
	return attempts
}

// partsByLine names the parts that are printed into a script, by their lines. Each script has arguments of its own.
func partsByLine(source string) map[int]string {
	parts, part, number := map[int]string{}, "", 0
	for line := range strings.Lines(source) {
		number++
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "-- PART "); is {
			part, _, _ = strings.Cut(name, ":")
		} else if strings.TrimSpace(line) == "-- END" {
			part = ""
		}
		if part != "" && part != "arguments" {
			parts[number] = part
		}
	}
	return parts
}

// sample is the same few mutants of every script each time.
func sample(attempts []*attempt) (few []*attempt) {
	random := rand.New(rand.NewPCG(5, 8))
	left := map[string]int{}
	for _, i := range random.Perm(len(attempts)) {
		if file := attempts[i].tab.script.File; left[file] < sampled {
			left[file]++
			few = append(few, attempts[i])
		}
	}
	slices.SortStableFunc(few, func(a, b *attempt) int {
		return cmp.Or(cmp.Compare(a.tab.script.File, b.tab.script.File), cmp.Compare(a.mutant.Line, b.mutant.Line))
	})
	return few
}

// putToTheTest runs the attempts, as many at once as there are processors.
func putToTheTest(t *testing.T, attempts []*attempt) {
	jobs := make(chan *attempt)
	var all sync.WaitGroup
	var killers sync.Map // by the script's file, the check that noticed its last mutant
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for tr := range jobs {
				tr.run(t, &killers)
			}
		})
	}
	for _, tr := range attempts {
		jobs <- tr
	}
	close(jobs)
	all.Wait()
}

// run looks for the first check that notices the mutant.
func (tr *attempt) run(t *testing.T, killers *sync.Map) {
	script, err := tr.mutant.Compile()
	if err != nil {
		t.Errorf("%v: %v", tr.mutant, err)
		return
	}
	script.Budget = mutantInstructions(tr.tab.script)
	for _, c := range tr.checks(killers) {
		if noticed(t, tr.tab, script, c) != "" {
			tr.killer = c.name
			killers.Store(tr.tab.script.File, c.name)
			return
		}
	}
}

// checks begin with the one that noticed the script's last mutant, which was most likely on the same line.
func (tr *attempt) checks(killers *sync.Map) []check {
	all := tr.tab.checks()
	killer, _ := killers.Load(tr.tab.script.File)
	if i := slices.IndexFunc(all, func(c check) bool { return c.name == killer }); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return all
}

func (tr *attempt) report(t *testing.T) {
	switch {
	case tr.equivalent && tr.killer != "":
		t.Errorf("%v is listed as changing nothing, and is noticed by %q", tr.mutant, tr.killer)
	case !tr.equivalent && tr.killer == "":
		t.Errorf("%v survives\n%s", tr.mutant, nameOf(tr.tab, tr.mutant))
	}
}

func printScore(t *testing.T, attempts []*attempt, proofs map[mutantName]string) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "script\tmutants\tkilled\tequivalent\tsurvived\tscore %\t")
	for _, tab := range tables {
		var killed, equivalent, survived int
		for _, tr := range attempts {
			switch {
			case tr.tab.script != tab.script:
			case tr.killer != "":
				killed++
			case tr.equivalent:
				equivalent++
			default:
				survived++
			}
		}
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%.1f\t\n", tab.script.File, killed+equivalent+survived, killed, equivalent,
			survived,
			100*float64(killed)/float64(killed+survived))
	}
	if err := out.Flush(); err != nil {
		t.Error(err)
	}
	for _, tr := range attempts {
		if name := nameOf(tr.tab, tr.mutant); tr.equivalent && *mutantsFlag == "all" {
			fmt.Printf("\n%v\n  %s\n", tr.mutant, strings.ReplaceAll(proofOf(proofs, name), "\n", "\n  "))
		}
	}
}

// A mutantName names a mutant so that changes elsewhere in the script do not matter.
type mutantName struct {
	file          string
	before, after string
	nth           int
}

func nameOf(tab table, m scripttest.Mutant) mutantName {
	return mutantName{tab.script.File, m.Before, m.After, m.Nth}
}

// ofAny is the mutant's name in any script: parts are written once, and what changes nothing in them is listed once.
func ofAny(name mutantName) mutantName {
	name.file = "*"
	return name
}

func proofOf(proofs map[mutantName]string, name mutantName) string {
	return cmp.Or(proofs[name], proofs[ofAny(name)])
}

// String is the name as testdata/equivalent.txt has it.
func (n mutantName) String() string {
	head := n.file
	if n.nth > 1 {
		head = fmt.Sprintf("%s #%d", n.file, n.nth)
	}
	return fmt.Sprintf("%s\n- %s\n+ %s", head, n.before, n.after)
}

//go:embed testdata/equivalent.txt
var equivalentText string

// readProofs reads the list of mutants that change nothing. An entry is the script's file or * for any, "#2" behind it for the
// second mutant of that kind, the line before (-) and after (+) the change, and the proof.
func readProofs(t *testing.T, text string) map[mutantName]string {
	proofs := map[mutantName]string{}
	for _, entry := range strings.Split(text, "\n\n") {
		if entry = strings.TrimSpace(entry); strings.HasPrefix(entry, "#") || entry == "" {
			continue
		}
		lines := strings.SplitN(entry, "\n", 4)
		if len(lines) < 4 || !strings.HasPrefix(lines[1], "-") || !strings.HasPrefix(lines[2], "+") {
			t.Fatalf("testdata/equivalent.txt: want file, -, + and a proof, got\n%s", entry)
		}
		name := mutantName{before: strings.TrimSpace(lines[1][1:]), after: strings.TrimSpace(lines[2][1:]), nth: 1}
		if _, err := fmt.Sscanf(lines[0], "%s #%d", &name.file, &name.nth); err != nil {
			name.file = lines[0]
		}
		if proofs[name] != "" {
			t.Errorf("testdata/equivalent.txt has this twice:\n%s", name)
		}
		proofs[name] = lines[3]
	}
	return proofs
}

// judgeProofs refuses a list with more than there may be, or with what no mutant is.
func judgeProofs(t *testing.T, attempts []*attempt, proofs map[mutantName]string) {
	mutants, listed := map[string]int{}, map[string]int{}
	known := map[mutantName]bool{}
	for _, tr := range attempts {
		mutants[tr.tab.script.File]++
		if tr.equivalent {
			listed[tr.tab.script.File]++
			known[nameOf(tr.tab, tr.mutant)] = true
			known[ofAny(nameOf(tr.tab, tr.mutant))] = true
		}
	}
	for name := range proofs {
		if !known[name] {
			t.Errorf("testdata/equivalent.txt lists what is no mutant:\n%s", name)
		}
	}
	for file, n := range listed {
		if n > alwaysEquivalent && 100*n > maxEquivalent*mutants[file] {
			t.Errorf("%s: %d of %d mutants change nothing, want at most %d %%", file, n, mutants[file], maxEquivalent)
		}
	}
}
