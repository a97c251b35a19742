package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// Each limiter of another language grants its limit and no more, through its driver. It needs the interpreters.
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
			for n := range 4 {
				if granted, err := d.take(f.subject("driver")); err != nil || granted != (n < 3) {
					t.Errorf("call %d of 3: granted %t, %v", n+1, granted, err)
				}
			}
			if ahead, err := d.ahead(); err != nil || ahead.Abs() > time.Minute {
				t.Errorf("its clock is %s ahead: %v", ahead, err)
			}
			version, _ := toolchains[f.language].pinned(f.client.module)
			fmt.Printf("%-6s | %-21s | %s %s | 3 of 4 granted\n", f.language, f.name, f.client.name, version)
		})
	}
	t.Run("adapters", func(t *testing.T) { // every decision is as its row says, and ulule's limit holds
		if rows := quickly(t, quick(), "adapters").rows("adapters"); len(rows) != 4 || rows[1].Audits[1].Most > fullLimit {
			t.Errorf("%+v", rows)
		}
	})
	t.Run("packages", func(t *testing.T) {
		if rows := quickly(t, quick(), "packages").rows("packages"); len(rows) != len(packaging) {
			t.Errorf("%+v", rows)
		}
	})
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
	found := func(promise string, i int, most ...int64) string {
		row := Row{Promise: promise}
		for _, n := range most {
			row.Audits = append(row.Audits, Audit{Most: n, Limit: 100})
		}
		return row.Found(i)
	}
	for _, c := range []struct{ name, got, want string }{
		{"clocks that agree", found(anyWindow, 0, 100, 150), "100 of 100"},
		{"clocks apart", found(anyWindow, 1, 100, 150), "**150 of 100**"},
		{"twice by promise", found(burstRate, 0, 200), "200 of 100"},
		{"beyond it", found(burstRate, 0, 201), "**201 of 100**"},
		{"not audited", found(anyWindow, 0), ""},
		{"charged once", lostText("error", 1), "error, 1 charged"},
		{"charged twice", lostText("granted", 2), "granted, **2 charged**"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

// Ours kept its limit whatever the clocks, and what the page says that others do better is so in the results.
func TestLanguagesOnThePage(t *testing.T) {
	rows := map[string]*Row{}
	for _, r := range results(t, "results.json").rows("languages") {
		language, _, _ := strings.Cut(r.Where, ",")
		rows[language+" "+r.Name] = r
		if r.Ours && r.Promise != burstRate && (r.Found(0) != "100 of 100" || r.Found(1) != "100 of 100") {
			t.Errorf("%s, %s: %s, %s with clocks apart, want 100 of 100", r.Where, r.Name, r.Found(0), r.Found(1))
		}
	}
	cheaper := func(name, figure string) bool {
		return rows[name].Figures[figure].Median < rows[strings.Fields(name)[0]+" list_log"].Figures[figure].Median
	}
	for _, n := range []string{"Python limits", "Python sorted set", "Python INCR, EXPIRE", "Node rate-limiter-flexible"} {
		if !cheaper(n, "granted cpu us") || !cheaper(n, "denied cpu us") {
			t.Errorf("%s costs more than list_log: %+v", n, rows[n])
		}
	}
	if r := rows["Java bucket4j"]; !cheaper("Java bucket4j", "denied cpu us") || r.Bytes >= rows["Java list_log"].Bytes {
		t.Errorf("bucket4j: %+v", r)
	}
	if r := rows["Python limits"]; !strings.HasSuffix(r.Lost, " 1 charged") {
		t.Errorf("limits: %+v", r)
	}
}
