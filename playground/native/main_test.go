package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/playground/internal/play"
)

// Each link gets its line, a wrong one too.
func TestEach(t *testing.T) {
	var out strings.Builder
	if err := each(strings.NewReader("lanes=gcra&rate=0&calls=1s,2us\nrate=x\n"), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], `"parameter":"rate"`) {
		t.Fatalf("%q", lines)
	}
	var got struct {
		Opened  play.Opened
		Records [][]float64
		Audit   play.Audit
	}
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
		t.Fatal(err)
	}
	if r := got.Records; len(r) != 2 || len(r[0]) != 8 || r[0][1] != 2 || r[1][1] != 1_000_000 || !got.Audit.Done ||
		got.Opened.Lanes[0].ID != "gcra" {
		t.Errorf("%+v", got)
	}
}

// A recording has all that the page draws.
func TestRecord(t *testing.T) {
	var out strings.Builder
	if err := record("", &out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Link    string
		Opened  play.Opened
		Records []byte
		Audit   play.Audit
		Stored  []play.Stored
		Detail  []play.Detail
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	lanes := got.Audit.Lanes
	if len(lanes) != 2 || len(got.Records) != got.Audit.Decisions*play.RecordSize || len(got.Opened.Lanes) != 2 ||
		len(got.Stored[1].Keys) == 0 || got.Detail[1].Index != lanes[1].Calls-1 {
		t.Errorf("%+v", got)
	}
	if err := record("rate=x", &out); err == nil {
		t.Error("a wrong link is recorded")
	}
}

// The demo's figures are the scripts' alone: ours keep the limit, a fixed window breaks it, and who polls asks in vain.
func TestDemo(t *testing.T) {
	var out strings.Builder
	if err := demo(&out); err != nil {
		t.Error(err)
	}
	for want, times := range map[string]int{"✓ kept": 5, "✗ broken": 1, "✗ wasteful": 1, "▆▆▆▆▆▆▆▆▆▆": 7} {
		if got := strings.Count(out.String(), want); got < times {
			t.Errorf("%d x %s, want %d:\n%s", got, want, times, out.String())
		}
	}
}
