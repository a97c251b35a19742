// Bench compares the scripts with a minimal script (the floor), with other scripts in use and with other libraries,
// interleaved on one server. It prints its page and writes results.json, docs/benchmarks.md, docs/serve.md and README's
// table.
//
//	go run .                    # all but the sections that are runs of their own
//	go run . -only section      # one section; server, worst, rings, many and go by themselves are only printed
//	go run . -quick             # shows that everything works; also -only; prints
//	go run . -out directory     # writes results.json there, and nothing else; also -only, -quick
//	go run . readme             # the pages again, from results.json
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A bench is one run.
type bench struct {
	server  *server
	section string // that is measured
	rounds  int    // of the section

	mostRounds int
	calls      int // of a row in a round
	mostLive   int64
	repeats    int             // of a single call
	loadSpan   time.Duration   // length of a load in a round
	windows    []time.Duration // to audit
	audited    time.Duration   // window of the audits of other languages' limiters
	services   []string        // that are compared; sluiced is the first
	serveSpan  time.Duration   // length of a load on one of them in a round

	begun time.Time
	asked int // calls that were measured one at a time
}

// full is a run whose figures are worth keeping; quick shows that all of it works.
func full() *bench {
	return &bench{
		mostRounds: 25, calls: 400, mostLive: 1e6, repeats: 5,
		loadSpan: 150 * time.Millisecond, windows: []time.Duration{time.Second, 500 * time.Millisecond},
		audited:  3 * time.Second,
		services: []string{sluiced, theirServer}, serveSpan: 500 * time.Millisecond,
	}
}

func quick() *bench {
	return &bench{
		mostRounds: 1, calls: 40, mostLive: 1e4, repeats: 1,
		loadSpan: 5 * time.Millisecond, windows: []time.Duration{100 * time.Millisecond},
		audited:  time.Second,
		services: []string{sluiced}, serveSpan: 20 * time.Millisecond,
	}
}

// progress goes to stderr, with the time since the run began.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s: %s\n", time.Since(b.begun).Seconds(), b.section, fmt.Sprintf(format, args...))
}

// A section is what -only names.
type section struct {
	name    string
	rounds  int  // at most
	alone   bool // a run of its own: it needs the interpreters of other languages, or a program that is not ours
	kept    bool // if it is measured by itself
	measure func(*bench, context.Context) ([]*Row, error)
}

var sections = []section{
	{"server", 25, false, false, (*bench).serverTimes},
	{"worst", 25, false, false, (*bench).worsts},
	{"rings", 25, false, false, (*bench).worstRings},
	{"many", 25, false, false, (*bench).manys},
	{"go", 8, false, false, (*bench).endToEnd},
	{"peers", 25, false, true, (*bench).peers},
	{"languages", 25, true, true, (*bench).languages},
	{"packages", 15, true, true, (*bench).packages},
	{"adapters", 25, true, true, (*bench).adapters},
	{"serve", 8, true, true, (*bench).serve},
}

// inTurn measures each of a list once a round; the first is another one in each round.
func inTurn[T any](b *bench, list []T, measure func(item T, round int) error) error {
	for round := range b.rounds {
		b.progress("round %d of %d", round+1, b.rounds)
		for i := range list {
			if err := measure(list[(i+round)%len(list)], round); err != nil {
				return err
			}
		}
	}
	return nil
}

// run measures one section, or all that are no runs of their own.
func (b *bench) run(ctx context.Context, only string) (*Results, error) {
	b.begun = time.Now()
	r := newResults()
	for _, s := range sections {
		if s.name != only && (only != "" || s.alone) {
			continue
		}
		b.section, b.rounds = s.name, min(s.rounds, b.mostRounds)
		rows, err := s.measure(b, ctx)
		if err == nil {
			err = r.add(ctx, b, rows)
		}
		if err == nil {
			err = b.server.FlushAll(ctx).Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return r, nil
}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	only := flags.String("only", "", "measure one section: "+strings.Join(names, ", "))
	short := flags.Bool("quick", false, "show that everything works; the figures are worth nothing")
	out := flags.String("out", "", "write results.json to this directory (whole runs: here, README and docs)")
	_ = flags.Parse(args)
	if flags.Arg(0) == "readme" {
		r, err := readResults("results.json")
		if err != nil {
			return err
		}
		return r.writePages()
	}
	if *only != "" && !slices.Contains(names, *only) {
		return fmt.Errorf("-only %s: want one of %s", *only, strings.Join(names, ", "))
	}
	b := full()
	if *short {
		b = quick()
	}
	return measure(b, *only, *out, !*short)
}

// measure runs b on a server of its own, prints the tables, and writes the files to out or, where they are to be kept,
// here. Its context can be cancelled, as a handler's can: an interrupt leaves no server behind.
func measure(b *bench, only, out string, keep bool) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	var err error
	if b.server, err = startServer(); err != nil {
		return err
	}
	defer b.server.stop()
	r, err := b.run(ctx, only)
	if err != nil {
		return err
	}
	page, err := r.fill(pageText + serveText)
	if err != nil {
		return err
	}
	fmt.Println(page)
	kept := only == "" || slices.ContainsFunc(sections, func(s section) bool { return s.name == only && s.kept })
	switch {
	case out != "":
		return r.write(filepath.Join(out, "results.json"))
	case keep && kept:
		return r.keep(only)
	}
	return nil
}

// keep puts the sections into results.json, beside those of the last run that this one did not measure, and writes the
// pages.
func (r *Results) keep(only string) error {
	last, err := readResults("results.json")
	if err != nil {
		return err
	}
	if only == "" {
		last.Scripts = r.Scripts
	}
	maps.Copy(last.Sections, r.Sections)
	if err := last.write("results.json"); err != nil {
		return err
	}
	return last.writePages()
}
