// Bench compares the scripts with a minimal script (the floor), with other scripts in use and with other libraries, in
// one run on one server. It prints its page and writes results.json, docs/benchmarks.md and README's table.
//
//	go run . [-only server|worst|many|go|http] [-quick] [-out directory]
//	go run . -only peers        # the limiters in Go again, into the same files
//	go run . -only languages    # the limiters of other languages, into the same files
//	go run . -only packages     # our packages for Python and Node beside others, into the same files
//	go run . -only adapters     # the adapters beside the originals, into the same files
//	go run . -only serve        # the rate limit service beside envoyproxy/ratelimit, into results.json and docs/serve.md
//	go run . readme             # the pages again, from results.json
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A bench is one run.
type bench struct {
	server *server
	only   string // the section to run; empty: all

	rounds   int
	calls    int // of a row in a round
	mostLive int64
	repeats  int             // of a single call
	loadSpan time.Duration   // length of a load in a round
	windows  []time.Duration // to audit

	audited time.Duration // window of the audits of other languages' limiters

	services  []string      // that are compared; sluiced is the first
	serveSpan time.Duration // length of a load on one of them in a round

	begun time.Time
	asked int // calls that were measured one at a time
}

// full is a run whose figures are worth keeping; quick shows that all of it works.
func full() *bench {
	return &bench{
		rounds: 25, calls: 400, mostLive: 1e6, repeats: 5,
		loadSpan: 150 * time.Millisecond, windows: []time.Duration{time.Second, 500 * time.Millisecond},
		audited:  3 * time.Second,
		services: []string{sluiced, theirServer}, serveSpan: 500 * time.Millisecond,
	}
}

func quick() *bench {
	return &bench{
		rounds: 1, calls: 40, mostLive: 1e4, repeats: 1,
		loadSpan: 5 * time.Millisecond, windows: []time.Duration{100 * time.Millisecond},
		audited:  time.Second,
		services: []string{sluiced}, serveSpan: 20 * time.Millisecond,
	}
}

// progress goes to stderr, with the time since the run began.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  "+format+"\n", append([]any{time.Since(b.begun).Seconds()}, args...)...)
}

// The sections of a run.
var sections = []string{"server", "worst", "many", "go", libraries, "http"}

// libraries is the section that is also kept if it is measured by itself.
const libraries = "peers"

// extras are sections by themselves: they need the interpreters of other languages, and a program that is not ours.
const (
	languages = "languages"
	packages  = "packages"
	services  = "serve"
	adapted   = "adapters"
)

var extras = []string{languages, packages, services, adapted}

func (b *bench) runs(section string) bool {
	return b.only == "" && !slices.Contains(extras, section) || b.only == section
}

// run measures what is asked for.
func (b *bench) run(ctx context.Context) (*Results, error) {
	b.begun = time.Now()
	ways, err := others()
	if err != nil {
		return nil, err
	}
	list := append(ours(), ways...)
	worst := []func(context.Context) ([]Worst, error){
		func(ctx context.Context) ([]Worst, error) { return b.worsts(ctx, list) },
		b.worstManys, b.worstReturns, b.worstRings,
	}
	r, err := newResults(ctx, b, list)
	if err != nil {
		return nil, err
	}
	if b.runs("server") {
		r.ServerTime, err = b.serverTimes(ctx, list)
	}
	for i := 0; i < len(worst) && err == nil && b.runs("worst"); i++ {
		var rows []Worst
		rows, err = worst[i](ctx)
		r.Worst = append(r.Worst, rows...)
	}
	for _, s := range []struct {
		section string
		measure func() error
	}{
		{"many", func() (err error) { r.Many, err = b.manys(ctx); return err }},
		{"go", func() (err error) { r.EndToEnd, err = b.endToEnd(ctx); return err }},
		{"go", func() (err error) { r.Loader, err = b.loaderCosts(ctx); return err }},
		{libraries, func() (err error) { r.Peers, err = b.peers(ctx); return err }},
		{"http", func() (err error) { r.HTTP, err = b.https(ctx); return err }},
		{languages, func() (err error) { r.Languages, err = b.languages(ctx); return err }},
		{packages, func() (err error) { r.Packages, err = b.packages(ctx); return err }},
		{services, func() (err error) { r.Serve, err = b.serve(ctx); return err }},
		{adapted, func() (err error) { r.Adapters, err = b.adapters(ctx); return err }},
	} {
		if err == nil && b.runs(s.section) {
			err = s.measure()
		}
	}
	return r, err
}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	only := flags.String("only", "", "measure one section: "+strings.Join(slices.Concat(sections, extras), ", "))
	short := flags.Bool("quick", false, "show that everything works; the figures are worth nothing")
	out := flags.String("out", "",
		"write results.json to this directory (whole runs: here, README and docs)")
	_ = flags.Parse(args)
	if flags.Arg(0) == "readme" {
		r, err := readResults("results.json")
		if err != nil {
			return err
		}
		return r.writePages()
	}
	if all := slices.Concat(sections, extras); *only != "" && !slices.Contains(all, *only) {
		return fmt.Errorf("-only %s: want one of %s", *only, strings.Join(all, ", "))
	}
	b := full()
	if *short {
		b = quick()
	}
	b.only = *only
	return measure(b, *out, slices.Contains(append(extras, "", libraries), *only) && !*short)
}

// measure runs b on a server of its own, prints the tables, and writes the files to out or, where they are to be kept,
// here. Its context can be cancelled, as a handler's can.
func measure(b *bench, out string, keep bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if b.server, err = startServer(); err != nil {
		return err
	}
	defer b.server.stop()
	stopWhenInterrupted(b.server)
	r, err := b.run(ctx)
	if err != nil {
		return err
	}
	page, err := r.fill(pageText + serveText)
	if err != nil {
		return err
	}
	fmt.Println(page)
	if out == "" && !keep {
		return nil
	}
	if out == "" {
		if r, err = r.besides(b.only); err != nil {
			return err
		}
	}
	if err := r.write(filepath.Join(out, "results.json")); err != nil {
		return err
	}
	if out == "" {
		return r.writePages()
	}
	return nil
}

// stopWhenInterrupted leaves no server behind.
func stopWhenInterrupted(s *server) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		s.stop()
		os.Exit(1)
	}()
}
