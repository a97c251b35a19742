package main

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// Each limiter of another language grants its limit and no more, through its driver. `make clients` runs it: it needs
// the interpreters.
func TestServerLanguages(t *testing.T) {
	addr := redistest.Start(t).Addr
	for language, toolchain := range toolchains {
		if err := toolchain.prepare(); err != nil {
			t.Fatalf("%s: %v", language, err)
		}
	}
	for _, f := range foreigners() {
		t.Run(f.language+" "+f.name, func(t *testing.T) {
			d, err := f.start(addr, 3, peerWindow)
			must(t, err)
			defer d.stop()
			_, _ = d.take(f.subject("warm")) // a JVM that has just started may be slower than its client's patience
			subject := f.subject("driver")
			if err := d.fill(subject, 3); err != nil {
				t.Error(err)
			}
			if granted, err := d.take(subject); err != nil || granted {
				t.Errorf("beyond the limit: granted %t, %v", granted, err)
			}
			if ahead, err := d.ahead(); err != nil || ahead.Abs() > time.Minute {
				t.Errorf("its clock is %s ahead: %v", ahead, err)
			}
			version, err := toolchains[f.language].pinned(f.client.module)
			fmt.Printf("%-6s | %-21s | %s %s | 3 of 4 granted\n", f.language, f.name, f.client.name, version)
			if err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("adapters", adaptersQuickly)
}

// adaptersQuickly runs that section: every decision is granted or denied as its row says, and ulule's limit holds.
func adaptersQuickly(t *testing.T) {
	b, dir := quick(), t.TempDir()
	b.only = adapted
	must(t, measure(b, dir, false))
	r, err := readResults(filepath.Join(dir, "results.json"))
	must(t, err)
	if rows := r.Adapters.Rows; len(rows) != 4 || rows[1].Audits[1].Most > fullLimit {
		t.Errorf("%+v", rows)
	}
}

// The versions of the table are those that the drivers are built with.
func TestPinned(t *testing.T) {
	for _, f := range foreigners() {
		for _, module := range []string{f.client.module, f.module} {
			version, err := toolchains[f.language].pinned(module)
			if module != "" && (err != nil || len(version) < len("1.2.3")) {
				t.Errorf("%s, %s: version %q: %v", f.language, module, version, err)
			}
		}
	}
	if version, err := toolchains["Node"].pinned("no-such-package"); err == nil {
		t.Errorf("a package that is not there: %s", version)
	}
}

// A row says what it found beyond the promise, for each audit by itself, and more than one charge.
func TestForeignCells(t *testing.T) {
	f := Foreign{Library: Library{Guarantee: anyWindow, Audits: []Audit{{Most: 100, Limit: 100}, {Most: 150, Limit: 100}}}}
	burst := func(most int64) Foreign {
		return Foreign{Library: Library{Guarantee: burstRate, Audits: []Audit{{Most: most, Limit: 100}}}}
	}
	for _, c := range []struct{ name, got, want string }{
		{"clocks that agree", f.Agree(), "100 of 100"},
		{"clocks apart", f.Apart(), "**150 of 100**"},
		{"twice by promise", burst(200).Agree(), "200 of 100"},
		{"beyond it", burst(201).Agree(), "**201 of 100**"},
		{"charged once", fmt.Sprint(Lost{"error", 1}), "error, 1 charged"},
		{"charged twice", fmt.Sprint(Lost{"granted", 2}), "granted, **2 charged**"},
		{"not shown", fmt.Sprint(Lost{}), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

// Ours kept its limit whatever the clocks.
func TestOursWithClocksApart(t *testing.T) {
	r, err := readResults("results.json")
	must(t, err)
	for _, f := range r.Languages.Rows {
		if f.Ours && f.Guarantee != burstRate && (f.Agree() != "100 of 100" || f.Apart() != "100 of 100") {
			t.Errorf("%s, %s: %s, %s with clocks apart, want 100 of 100", f.Language, f.Name, f.Agree(), f.Apart())
		}
	}
}

// What the page says that others do better is so in the results.
func TestOthersDoBetter(t *testing.T) {
	r, err := readResults("results.json")
	must(t, err)
	rows := map[string]Foreign{}
	for _, f := range r.Languages.Rows {
		rows[f.Language+" "+f.Name] = f
	}
	ours, cheap := rows["Python list_log"], []string{"Python limits", "Python sorted set", "Python INCR, EXPIRE",
		"Node rate-limiter-flexible", "Node @upstash/ratelimit"}
	for _, name := range cheap {
		if f := rows[name]; f.Granted.CPU.Median >= ours.Granted.CPU.Median || f.Denied.CPU.Median >= ours.Denied.CPU.Median {
			t.Errorf("%s costs more than list_log: %+v, %+v", name, f.Granted, f.Denied)
		}
	}
	if f := rows["Java bucket4j"]; f.Denied.CPU.Median >= ours.Denied.CPU.Median || f.Bytes >= ours.Bytes {
		t.Errorf("bucket4j: %+v", f)
	}
	if f := rows["Python limits"]; f.Lost.Charged != 1 {
		t.Errorf("limits: %+v", f)
	}
}
