package play

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// vector is a row of scripts/calls.json: a call, and what the loader makes of it.
type vector struct {
	Limiter, Name string
	Limits        []struct{ Permits, Window, Burst int64 }
	Call, Subject string
	Permits       int64
	MaxWait       *int64 `json:"max_wait"`
	ID            string
	ClientID      string `json:"client_id"`
	PerClient     bool   `json:"per_client"`
	Slice         int64
	Slots, TTL    int64
	SettleWithin  int64 `json:"settle_within"`
	Script        string
	Keys, Args    []string
	Refused       string
}

// Every call of scripts/calls.json that a lane may make has the keys and arguments that the loader sends.
func TestRequestsAreTheLoaders(t *testing.T) {
	text, err := os.ReadFile("../../../scripts/calls.json")
	must(t, err)
	var file struct{ Vectors []vector }
	must(t, json.Unmarshal(text, &file))
	checked := map[string]int{}
	for _, v := range file.Vectors {
		k := limiterOf(v.Limiter)
		if k == nil || k.id == "quota" || v.Refused != "" || v.Script != v.Limiter+"_v1" && v.Call != "settle" {
			continue // other scripts, what sends nothing, and periods by the clock: TestQuotaRequest
		}
		checked[v.Limiter]++
		keys, args := v.request().words(k)
		if !slices.Equal(keys, v.Keys) || !slices.Equal(args, v.Args) {
			t.Errorf("%+v\nsent %q %q", v, keys, args)
		}
	}
	for _, k := range limiters {
		if k.id == "quota" { // its periods are by the clock: TestQuotaRequest
			continue
		}
		if k.kind == kindOurs && k.follows != reports && checked[k.id] < 2 {
			t.Errorf("%s: %d calls, want more", k.id, checked[k.id])
		}
	}
}

// A quota names the period of the server's clock between those beside it.
func TestQuotaRequest(t *testing.T) {
	r := request{name: "play", subject: "a", limits: []Limit{{5, 100}}, permits: 2, now: 1234, taken: 1199}
	_, args := r.words(limiterOf("quota"))
	r.purpose = ending
	_, returned := r.words(limiterOf("quota"))
	if !slices.Equal(args, []string{"5", "2", "0", "1100", "1200", "1300", "1400"}) ||
		!slices.Equal(returned, []string{"1100", "2"}) {
		t.Errorf("sent %q, and gives back by %q", args, returned)
	}
}

func (v vector) request() request {
	r := request{
		name: v.Name, subject: v.Subject, permits: v.Permits, id: v.ID, client: v.ClientID, perClient: v.PerClient,
	}
	if v.Limiter == "concurrency" {
		r.id, r.ttl, r.limits = "<id>", v.TTL, []Limit{{Permits: v.Slots}}
		return r
	}
	if v.Call == "settle" {
		r.purpose, r.actual = ending, v.Permits
	}
	if r.ttl = v.SettleWithin; r.ttl == 0 {
		r.ttl = 900 * second
	}
	for _, l := range v.Limits {
		r.limits = append(r.limits, Limit{l.Permits, l.Window})
		if r.burst = l.Burst; r.burst == 0 {
			r.burst = l.Permits
		}
	}
	r.slice = v.Slice
	if v.Call == "reserve" {
		r.maxWait = 60_000_000
	}
	if v.MaxWait != nil {
		r.maxWait = *v.MaxWait
	}
	return r
}
