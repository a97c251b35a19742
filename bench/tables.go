package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// print writes every table of the run.
func (r *Results) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %s, %s; %d rounds; times as multiples of the floor, %s (%s): median (quartiles)\n",
		r.Server, r.Go, r.CPU, r.Date, r.Rounds, r.Floor.Does, r.Floor.SHA1)
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(r.ServerTime) > 0 {
		t.head("server time a call", "outcome", "live", "state", "x floor", "us", "x floor without deciding")
	}
	for _, s := range r.ServerTime {
		t.row(s.Subject, s.Outcome, count(s.Live), s.State, s.Ratio, fmt.Sprintf("%.2f", s.Usec.Median), s.Bare)
	}
	if len(r.Worst) > 0 {
		t.head("worst single call", "entries", "expired", "call", "median", "max", "repeats")
	}
	for _, c := range r.Worst {
		t.row(c.Subject, count(c.Entries), c.Expired, c.Call, duration(c.Median), duration(c.Max), c.Repeats)
	}
	if len(r.Bytes) > 0 {
		t.head("bytes a limiter", "permits", "slices", "bytes", "each")
	}
	for _, m := range r.Bytes {
		t.row(m.Subject, count(m.Permits), m.Slices, m.Bytes, fmt.Sprintf("%.1f", m.Each()))
	}
	r.printCallers(t)
	t.head("target", "", "measured", "")
	for _, x := range r.Targets {
		t.row(x.Name, x.wanted(), x.measured(), x.verdict())
	}
	return t.w.Flush()
}

// printCallers prints what callers in Go measure: the loader, EVALSHA and other libraries.
func (r *Results) printCallers(t *table) {
	if len(r.EndToEnd) > 0 {
		t.head("from Go", "goroutines", "batch", "decisions/s", "x EVALSHA", "p50 us", "p99 us")
	}
	for _, e := range r.EndToEnd {
		t.row(e.Way, e.Goroutines, e.Batch, fmt.Sprintf("%.0f", e.PerSecond.Median), e.Ratio,
			fmt.Sprintf("%.0f", e.P50), fmt.Sprintf("%.0f", e.P99))
	}
	if len(r.Loader) > 0 {
		t.head("loader over EvalSha", "context", "allocs", "bare", "x time")
	}
	for _, l := range r.Loader {
		t.row(l.Limiter, l.Context, l.LoaderAllocs, l.BareAllocs,
			fmt.Sprintf("%.3f (%.3f-%.3f)", l.Time.Median, l.Time.Low, l.Time.High))
	}
	if len(r.Peers) > 0 {
		t.head("libraries", "promise", "granted: commands", "cpu", "time", "denied: commands", "cpu", "time", "bytes",
			"most of the limit in a window", "sends")
	}
	for _, p := range r.Peers {
		t.row(p.label(), p.Guarantee, p.Granted.Commands, p.Granted.CPU, p.Granted.Time,
			p.Denied.Commands, p.Denied.CPU, p.Denied.Time, p.Bytes, p.audited(), strings.Join(p.Commands, ", "))
	}
}

// audited says "199 of 100 in 1s".
func (p Peer) audited() string {
	var texts []string
	for _, a := range p.Audits {
		text := fmt.Sprintf("%d of %d in %s", a.Most, a.Limit, a.Window)
		if a.Failed > 0 {
			text += fmt.Sprintf(", %d failed", a.Failed)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func (p Peer) label() string { return strings.TrimSpace(p.Name + " " + p.Version) }

// A table lines its columns up.
type table struct{ w *tabwriter.Writer }

func (t *table) head(columns ...string) {
	_ = t.w.Flush()
	fmt.Fprintln(t.w)
	fmt.Fprintln(t.w, strings.Join(columns, "\t"))
}

func (t *table) row(columns ...any) {
	texts := make([]string, len(columns))
	for i, column := range columns {
		texts[i] = fmt.Sprint(column)
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// count writes powers of ten as such.
func count(n int64) string {
	switch n {
	case 1e4:
		return "10^4"
	case 1e5:
		return "10^5"
	case 1e6:
		return "10^6"
	}
	return fmt.Sprint(n)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// duration writes microseconds as people say them.
func duration(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.3g s", us/1e6)
	case us >= 1e3:
		return fmt.Sprintf("%.3g ms", us/1e3)
	}
	return fmt.Sprintf("%.0f us", us)
}
