package play

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseDefaults(t *testing.T) {
	got, err := Parse("")
	must(t, err)
	want := &Scenario{
		Lanes: []string{"list_log", "fixed_window"}, Limits: []Limit{{5, second}}, Burst: 5, For: 10 * second, Rate: 8000,
		Burstiness: 1, Clients: 10, Cost: 1, CostMax: 1, Denied: "leave", Every: 100_000, Tries: 10, Seed: 1,
		Hold: 500_000, HoldMax: 500_000, Actual: 100, ActualMax: 100, TTL: 30 * second, Processes: 4, Error: 20,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestParse(t *testing.T) {
	const link = "#lanes=slice_ring%2Cgcra%2Cown&permits=7&window=1m30s&permits2=70&window2=1h&burst=9&ahead=2.5s" +
		"&for=24h&rate=0.125&burstiness=0&clients=1000&noisy=100&key=client&cost=2&costmax=3&denied=poll&every=1ms" +
		"&tries=100&skew=5s&step=4s%3A-10s,1s:1h&bunch=1m:10000&paint=0az&calls=1.5s,2us&seed=9007199254740991&lua=return+1" +
		"&hold=1ms&holdmax=1h&actual=0&actualmax=1000&lost=100&unused=99&ttl=24h&processes=100&error=1"
	got, err := Parse(link)
	must(t, err)
	want := &Scenario{
		Lanes: []string{"slice_ring", "gcra", "own"}, Limits: []Limit{{7, 90 * second}, {70, 3600 * second}}, Burst: 9,
		Ahead: 2_500_000, For: day, Rate: 125, Clients: 1000, Noisy: 100, KeyPerClient: true, Cost: 2, CostMax: 3,
		Denied: "poll", Every: 1000, Tries: 100, Skew: 5 * second,
		Steps:      []ClockStep{{second, 3600 * second}, {4 * second, -10 * second}},
		BunchEvery: 60 * second, Bunch: 10_000, Paint: []int64{0, 10, 35}, Calls: []int64{2, 1_500_000},
		Seed: 1<<53 - 1, Own: "return 1", Hold: 1000, HoldMax: 3600 * second, ActualMax: 1000, Lost: 100, Unused: 99,
		TTL: day, Processes: 100, Error: 1,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// Every parameter is refused by name, with its value and what is wanted.
func TestParseRefuses(t *testing.T) {
	const whole = "whole number from "
	tested := map[string]bool{}
	for _, test := range []struct{ link, parameter, value, want string }{
		{"lanes=list_log,lost", "lanes", "list_log,lost", "up to 6 different ones of list_log, zset_log"},
		{"lanes=", "lanes", "", "different ones"},
		{"lanes=gcra,gcra", "lanes", "gcra,gcra", "different ones"},
		{"lanes=list_log,zset_log,gcra,token_bucket,slice_ring,s1,s2", "lanes", "list_log", "up to 6"},
		{"permits=0", "permits", "0", whole + "1 to 100000"},
		{"permits=5.5", "permits", "5.5", whole},
		{"permits=100001", "permits", "100001", whole},
		{"permits=10001&lanes=gcra,zset_log", "permits", "10001", "up to 10000 with zset_log"},
		{"window=1", "window", "1", "a duration from 1ms to 24h, in whole microseconds"},
		{"window=1.0000001s", "window", "1.0000001s", "whole microseconds"},
		{"window=999us", "window", "999us", "from 1ms"},
		{"permits2=3", "window2", "", "a duration from 1ms"},
		{"window2=3s", "permits2", "", whole},
		{"burst=-1", "burst", "-1", whole + "1 to 10000000"},
		{"burst=10000000&permits=1&window=24h", "burst", "10000000", "2^52"},
		{"ahead=61s", "ahead", "61s", "from 0s to 1m,"},
		{"for=99ms", "for", "99ms", "from 100ms to 24h"},
		{"rate=ten", "rate", "ten", "0 to 10000 calls a second"},
		{"rate=-1", "rate", "-1", "0 to 10000"},
		{"rate=10000.001", "rate", "10000.001", "0 to 10000"},
		{"rate=1.0001", "rate", "1.0001", "three decimal places"},
		{"rate=", "rate", "", "0 to 10000"},
		{"burstiness=101", "burstiness", "101", whole + "0 to 100"},
		{"clients=1001", "clients", "1001", whole + "1 to 1000"},
		{"noisy=101", "noisy", "101", whole + "0 to 100"},
		{"key=all", "key", "all", "one or client"},
		{"cost=6", "cost", "6", "up to 5 with list_log"},
		{"cost=501&permits=1000&lanes=list_log,zset_log", "cost", "501", "up to 500 with zset_log"},
		{"cost=6&lanes=gcra&burst=5&permits=9", "cost", "6", "up to 5 with gcra"},
		{"cost=3&lanes=slice_ring&permits2=2&window2=1m", "cost", "3", "up to 2 with slice_ring"},
		{"cost=2&costmax=1", "costmax", "1", whole + "2 to 100000"},
		{"cost=2&costmax=6", "costmax", "6", "up to 5 with list_log"},
		{"denied=stay", "denied", "stay", "leave or wait or poll"},
		{"every=0s", "every", "0s", "from 1ms to 1h"},
		{"tries=0", "tries", "0", whole + "1 to 100"},
		{"skew=-1s", "skew", "-1s", "from 0s to 1h"},
		{"step=4s", "step", "4s", "steps at:by"},
		{"step=4s:1s,-1s:1s", "step", "4s:1s,-1s:1s", "steps at:by"},
		{"bunch=1s", "bunch", "1s", "a period"},
		{"bunch=10ms:4", "bunch", "10ms:4", "from 100ms"},
		{"bunch=1s:4,2s:4", "bunch", "1s:4,2s:4", "a period"},
		{"paint=9_9", "paint", "9_9", "digits or letters"},
		{"paint=" + strings.Repeat("1", 201), "paint", "1111", "up to 200"},
		{"calls=1s,x", "calls", "1s,x", "times, such as"},
		{"calls=" + strings.Repeat("1s,", 500) + "1s", "calls", "1s,1s", "up to 500"},
		{"seed=-1", "seed", "-1", whole + "0 to 9007199254740991"},
		{"hold=0s", "hold", "0s", "from 1ms to 1h"},
		{"hold=2s&holdmax=1s", "holdmax", "1s", "from 2s to 1h"},
		{"actual=1001", "actual", "1001", whole + "0 to 1000"},
		{"actual=50&actualmax=49", "actualmax", "49", whole + "50 to 1000"},
		{"lost=101", "lost", "101", whole + "0 to 100"},
		{"unused=-1", "unused", "-1", whole + "0 to 100"},
		{"ttl=9ms", "ttl", "9ms", "from 10ms to 24h"},
		{"processes=0", "processes", "0", whole + "1 to 100"},
		{"error=101", "error", "101", whole + "1 to 100"},
		{"permits=10001&lanes=concurrency", "permits", "10001", "up to 10000 with concurrency"},
		{"cost=3&lanes=budget&permits2=2&window2=1m", "cost", "3", "up to 2 with budget"},
		{"lanes=own", "lua", "", "the text of the lane own"},
		{"lua=" + strings.Repeat("-", 100_001), "lua", "---", "up to 100000 bytes"},
		{"speed=1", "speed", "1", "one of the parameters actual, actualmax, ahead"},
		{"rate=1&rate=2", "rate", "2", "each parameter once"},
		{"rate=%zz", "link", "rate=%zz", "name=value"},
	} {
		tested[test.parameter] = true
		_, err := Parse(test.link)
		wrong, ok := err.(*LinkError)
		if !ok || wrong.Parameter != test.parameter || !strings.HasPrefix(wrong.Value, test.value) ||
			!strings.Contains(wrong.Want, test.want) || len(err.Error()) > 300 {
			t.Errorf("%.100s: %v\nwant %s, %s, %s", test.link, err, test.parameter, test.value, test.want)
		}
	}
	for name := range parameters {
		if !tested[name] {
			t.Errorf("no wrong %s is tested", name)
		}
	}
}
