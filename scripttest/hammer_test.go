package scripttest_test

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/redistest"
)

var hammerFor = flag.Duration("hammer", 1200*time.Millisecond,
	"how long TestServerHammer hammers each script, in whole seconds")

const (
	hammerProcesses = 8
	hammerLimit     = 1000 // a second
	hammerEnv       = "SLUICE_TEST_HAMMER"
)

// A hammering says how a script is called and audited.
type hammering struct {
	script   *sluice.Script
	capacity float64 // the least share of what the limit allows
	burst    int64   // what an interval of length 0 may hold; the logs and the ring hold limit in a window
	keys     []string
	args     string // with names for what differs from call to call

	back     *sluice.Script // gives some permits back, if not nil
	backArgs string         // likewise
}

// hammered are all scripts. Where permits go back, a booking may leave a hole, so nothing is asked of the capacity.
var hammered = []hammering{
	{&sluice.ListLogV1, 0.99, 0, listLogV1.keys, "1000 1000000 permits max_wait", nil, ""},
	{&sluice.ZSetLogV1, 0.99, 0, zsetLogV1.keys, "1000 1000000 permits max_wait id", nil, ""},
	{&sluice.SliceRingV1, 0.90, 0, sliceRingV1.keys, "20000 permits 51 1000", nil, ""},
	{&sluice.BudgetV1, 0.90, 0, budgetV1.keys, "20000 60000000 permits 51 1000", nil, ""},
	{&sluice.TokenBucketV1, 0.99, 0, tokenBucketV1.keys, "1000 1000000 0 permits max_wait", nil, ""},
	{&sluice.GCRAV1, 0.99, 100, gcraV1.keys, "1000 1000000 100 permits max_wait", nil, ""},
	{&sluice.GCRAManyV1, 0.99, 100, append(gcraV1.keys, "t:x:{u}:other"), "1000 1000000 100 permits max_wait", nil, ""},
	{&sluice.ListLogManyV1, 0.99, 0, append(listLogV1.keys, "t:x:{u}:other"), "1000 1000000 permits max_wait", nil, ""},
	{&sluice.SliceRingManyV1, 0.90, 0, append(sliceRingV1.keys, "t:x:{u}:other"), "20000 permits 51 1000", nil, ""},
	{&sluice.ListLogV1, 0, 0, listLogV1.keys, "1000 1000000 permits max_wait", &sluice.ListLogReturnV1, "at back"},
	{&sluice.ZSetLogV1, 0, 0, zsetLogV1.keys, "1000 1000000 permits max_wait id", &sluice.ZSetLogReturnV1, "id back"},
	{&sluice.SliceRingV1, 0, 0, sliceRingV1.keys, "20000 permits 51 1000", &sluice.SliceRingReturnV1, "20000 now back"},
}

func (h hammering) name() string {
	if h.back != nil {
		return h.back.Name
	}
	return h.script.Name
}

// TestServerHammer has 8 processes share one key of each script, and audits every granted reply: no interval holds more
// than the limit, and what the limit allows is used. Some calls book ahead, some ask for several permits, and those of
// zset_log and budget ask again with the id of a call that was answered. Where permits go back, those that do not are
// audited.
func TestServerHammer(t *testing.T) {
	if role := os.Getenv(hammerEnv); role != "" {
		hammer(t, role)
		return
	}
	for _, h := range hammered {
		t.Run(h.name(), func(t *testing.T) {
			if !judgesCapacity() {
				t.Parallel()
			}
			server := redistest.Start(t)
			acts, calls := gather(t, h.name(), server.Addr)
			most := maxInWindow(acts, time.Second)
			limit := int64(hammerLimit)
			if h.burst > 0 {
				limit += h.burst
				if late := conforms(acts, h.burst); late != "" {
					t.Error(late)
				}
			}
			if most > limit {
				t.Errorf("%d permits in one second, want at most %d", most, limit)
			}
			used := capacity(acts, h.burst)
			t.Logf("%d calls, most permits in one second %d of %d, capacity used %.2f %%", calls, most, limit, 100*used)
			if used < h.capacity && judgesCapacity() {
				t.Errorf("%.2f %% of the capacity used, want %.0f %%", 100*used, 100*h.capacity)
			}
		})
	}
}

// judgesCapacity tells whether the run is long enough. A short one says less about capacity than about what else the
// machine is doing.
func judgesCapacity() bool { return *hammerFor >= 10*time.Second }

// An act is permits that were granted for a time, in microseconds.
type act struct{ at, permits int64 }

// gather runs the processes and returns what they were granted, by time, and how often they asked. They print "granted
// <time> <permits>" and "calls <n>".
func gather(t *testing.T, script, addr string) (acts []act, calls int64) {
	part := func(process int) string { return fmt.Sprintf("%s=%s %s %d", hammerEnv, script, addr, process) }
	runProcesses(t, "TestServerHammer", part, func(kind string, numbers []int64) {
		switch kind {
		case "granted":
			acts = append(acts, act{numbers[0], numbers[1]})
		case "calls":
			calls += numbers[0]
		}
	})
	slices.SortFunc(acts, func(a, b act) int { return int(a.at - b.at) })
	if len(acts) == 0 {
		t.Fatal("nothing was granted")
	}
	return acts, calls
}

// runProcesses runs a test in several processes at once, each with a variable of the environment that tells it its
// part. read gets the lines that they print, a word and then numbers, one at a time. Other lines are the test runner's.
func runProcesses(t *testing.T, test string, part func(process int) string, read func(kind string, numbers []int64)) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for process := range hammerProcesses {
		all.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-hammer="+hammerFor.String())
			cmd.Env = append(os.Environ(), part(process))
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if kind, numbers, ok := parseLine(lines.Text()); ok {
					mu.Lock()
					read(kind, numbers)
					mu.Unlock()
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", process, err)
			}
		})
	}
	all.Wait()
}

func parseLine(text string) (kind string, numbers []int64, ok bool) {
	words := strings.Fields(text)
	for i, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		switch {
		case i == 0:
			kind = word
		case err != nil:
			return "", nil, false
		default:
			numbers = append(numbers, n)
		}
	}
	return kind, numbers, len(numbers) > 0
}

// hammer is one of the processes: two callers who ask as fast as they can, for longer than their capacity is judged.
func hammer(t *testing.T, role string) {
	words := strings.Fields(role)
	script, addr, process := words[0], words[1], words[2]
	var mu sync.Mutex
	var all sync.WaitGroup
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	calls := 0
	for _, h := range hammered {
		if h.name() != script {
			continue
		}
		client := connect(t, addr)
		length := *hammerFor
		if judgesCapacity() {
			length += 2 * time.Second
		}
		for caller := range 2 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(len(process)), uint64(process[0])<<8|uint64(caller)))
				until := time.Now().Add(length)
				for k := 0; time.Now().Before(until); k++ {
					permits := 1 + random.Int64N(3)
					id := fmt.Sprintf("%s-%d-%d", process, caller, k)
					args := strings.Fields(strings.NewReplacer("permits", fmt.Sprint(permits),
						"max_wait", fmt.Sprint(1000*random.Int64N(200)), "id", id).Replace(h.args))
					again, keys := 1+random.IntN(2)*random.IntN(2), slices.Clone(h.keys)
					switch h.script.Name {
					case "budget":
						keys[1] += id
					case "zset_log":
					default:
						again = 1
					}
					// What was granted is counted once by its id, for the time of the first answer.
					at, now := int64(0), int64(0)
					for range again {
						reply, err := runScript(client, h.script.Source, keys, args).Int64Slice()
						if err != nil {
							t.Error(err)
							return
						}
						if reply = (table{script: h.script}).first(reply); reply[0] > 0 && at == 0 {
							at, now = reply[4]+reply[2], reply[4]
						}
					}
					if back := random.Int64N(permits + 1); h.back != nil && at != 0 && back > 0 {
						args := strings.Fields(strings.NewReplacer("at", fmt.Sprint(at), "now", fmt.Sprint(now), "id", id,
							"back", fmt.Sprint(back)).Replace(h.backArgs))
						reply, err := runScript(client, h.back.Source, h.keys, args).Int64Slice()
						if err != nil || reply[0] != back {
							t.Errorf("%d given back: %v, %v", back, reply, err)
							return
						}
						permits -= back
					}
					mu.Lock()
					calls += again
					if at != 0 {
						fmt.Fprintf(out, "granted %d %d\n", at, permits)
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	fmt.Fprintf(out, "calls %d\n", calls)
}

// maxInWindow is the most permits in any half-open interval of the length.
func maxInWindow(acts []act, window time.Duration) (most int64) {
	var first int
	var in int64
	for _, a := range acts {
		in += a.permits
		for acts[first].at <= a.at-window.Microseconds() {
			in -= acts[first].permits
			first++
		}
		most = max(most, in)
	}
	return most
}

// conforms checks acts against a bucket of burst permits that one trickles into every 1000 us.
func conforms(acts []act, burst int64) string {
	const interval = 1_000_000 / hammerLimit
	tat := acts[0].at
	for i, a := range acts {
		tat = max(tat, a.at) + a.permits*interval
		if tat-a.at > burst*interval {
			return fmt.Sprintf("act %d at %d: %d us more than the burst", i, a.at, tat-a.at-burst*interval)
		}
	}
	return ""
}

// capacity is the share that was granted of what the limit allows from the first act on for the time that was asked
// for. A log may begin every window with all of it, a bucket begins full.
func capacity(acts []act, burst int64) float64 {
	var granted int64
	end := acts[0].at + hammerFor.Microseconds()
	for _, a := range acts {
		if a.at < end {
			granted += a.permits
		}
	}
	return float64(granted) / (float64(burst) + hammerLimit*hammerFor.Seconds())
}
