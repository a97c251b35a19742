package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/experiment"
)

const demoUsage = `usage: sluice demo [flags]

A payment API takes 5 calls in any second, wherever that second starts. Many
workers share it through the scripts, and through two faulty ways, all at once
and each on a key of its own, on a miniredis in this process or on your server.
A recorder that knows nothing of limits notes every act; then its notes are
audited and drawn.

The exit status is 1 if a script of ours breaks its promise: more than 5 acts
booked for one second; less than 99 % of the capacity (slice_ring: 90 %), where
two permits lost at the ends do not count; more than one call for a permit
(except slice_ring, which cannot book).

  --redis URL       on this server: redis://[user:password@]host:port[/db], or
                    rediss:// for TLS; the keys expire by themselves
  --cluster LIST    on a cluster, or on what sentinels watch, as in
  --sentinel LIST   sluice help load
  --duration D      whole seconds, 2s to 10m (default 12s)
  --workers N       for each way, 5 to 200 (default 20)
  --margin D        makes our windows longer than the second that is audited, so
                    that a worker that is late harms nobody, as 20ms (default 0)
  --color WHEN      auto (the default: on a terminal, unless NO_COLOR is set),
                    always or never
`

// demoFlags are the flags of demo.
type demoFlags struct {
	target   targetFlags
	color    string
	workers  int
	duration time.Duration
	margin   time.Duration
}

func parseDemo(args []string) (demoFlags, error) {
	var f demoFlags
	flags := newFlags("demo")
	f.target.register(flags)
	flags.StringVar(&f.color, "color", "auto", "")
	flags.IntVar(&f.workers, "workers", 20, "")
	lengthFlag(flags, &f.duration, "duration", 12*time.Second)
	lengthFlag(flags, &f.margin, "margin", 0)
	others, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return f, err
	case len(others) > 0:
		return f, usagef("unexpected argument %s", given(others[0]))
	case f.workers < 5 || f.workers > 200:
		return f, usagef("--workers is %d: want 5 to 200", f.workers)
	case f.duration < 2*time.Second || f.duration > 10*time.Minute || f.duration%time.Second != 0:
		return f, usagef("--duration is %v: want whole seconds, 2s to 10m", f.duration)
	case f.margin < 0 || f.margin > time.Second || f.margin%time.Microsecond != 0:
		return f, usagef("--margin is %v: want 0 to 1s, in whole microseconds", f.margin)
	}
	return f, nil
}

func (a app) demo(ctx context.Context, args []string) error {
	f, err := parseDemo(args)
	if err != nil {
		return err
	}
	out, err := a.newScreen(a.stdout, f.color)
	if err != nil {
		return err
	}
	server, err := a.demoServer(f.target)
	if err != nil {
		return err
	}
	defer server.close()

	e, err := experiment.New(ctx, experiment.Config{
		Connect: server.connect, Subject: "payments-" + rand.Text(),
		Workers: f.workers, Duration: f.duration, Margin: f.margin,
	})
	if err != nil {
		return err
	}
	defer e.Close()

	out.introduce(f, server.name, e.Ways())
	shown := out.newProgress(f.duration)
	results, err := e.Run(ctx, shown.interval(), shown.update)
	shown.end()
	if err != nil {
		return err
	}
	return out.report(results, f.margin)
}

// demoServer is where the experiment runs.
type demoServer struct {
	name    string
	connect func() redis.UniversalClient
	close   func()
}

// demoServer starts a miniredis, unless the flags name a deployment. The environment does not: the demo is
// for those who have nothing yet.
func (a app) demoServer(f targetFlags) (demoServer, error) {
	if f != (targetFlags{}) {
		t, err := a.target(f)
		if err != nil {
			return demoServer{}, err
		}
		return demoServer{name: t.String(), connect: t.client, close: func() {}}, nil
	}
	mini, err := miniredis.Run()
	if err != nil {
		return demoServer{}, fmt.Errorf("starting miniredis: %w", err)
	}
	connect := func() redis.UniversalClient { return redis.NewClient(quiet(&redis.Options{Addr: mini.Addr()})) }
	return demoServer{name: "an embedded miniredis", connect: connect, close: mini.Close}, nil
}

// introduce says what is going to happen.
func (s screen) introduce(f demoFlags, server string, ways []experiment.Way) {
	s.printf("%s\n", s.paint(bold, fmt.Sprintf("A payment API takes %d calls in any second, wherever that second starts.", experiment.Limit)))
	s.printf("%d workers share it for %s, in each of %d ways at once.\n", f.workers, seconds(f.duration), len(ways))
	if f.margin > 0 {
		s.printf("The windows of our scripts are %v long.\n", experiment.Window+f.margin)
	}
	s.printf("Server: %s\n\n", server)
	for _, way := range ways {
		s.printf("  %s%s\n", s.paint(bold, pad(way.Name, gutter)), way.Text)
	}
	s.printf("\n")
}

// report draws the results, and fails when one of our scripts has broken a promise.
func (s screen) report(results []experiment.Result, margin time.Duration) error {
	s.picture(results)
	s.printf("\n")
	s.legend(results[0].Duration)
	s.printf("\n")
	s.comparison(results)
	s.printf("\n")
	s.notes(results)
	s.printf("\n")
	var broken []string
	for _, r := range results {
		broken = append(broken, r.Broken(margin)...)
	}
	if len(broken) == 0 {
		s.printf("%s\n", s.paint(green, s.either("✓", "ok:")+" our scripts kept every promise"))
		return nil
	}
	for _, text := range broken {
		s.printf("%s\n", s.paint(red, s.either("✗", "BROKEN:")+" "+text))
	}
	return errReported
}

// comparison is the table of all ways.
func (s screen) comparison(results []experiment.Result) {
	var t table
	t.head("way", "acts", "booked", "real", "capacity", "calls", "a permit", "longest wait")
	for _, r := range results {
		t.add(
			cell{text: r.Name},
			cell{text: strconv.Itoa(len(r.Booked)), right: true},
			cell{text: strconv.Itoa(r.MostBooked()), right: true, as: s.judged(r.MostBooked())},
			cell{text: strconv.Itoa(r.MostReal()), right: true, as: s.judged(r.MostReal())},
			cell{text: fmt.Sprintf("%.1f %%", 100*r.Capacity()), right: true},
			cell{text: strconv.Itoa(r.Calls), right: true},
			cell{text: fmt.Sprintf("%.2f", r.CallsPerPermit()), right: true},
			cell{text: fmt.Sprintf("%.1f s", r.LongestWait.Seconds()), right: true},
		)
	}
	t.print(s)
}

// judged is the style of a number of acts in a second.
func (s screen) judged(most int) style {
	switch {
	case most <= experiment.Limit:
		return green
	case most == experiment.Limit+1:
		return yellow
	}
	return red
}

// notes explain the table.
func (s screen) notes(results []experiment.Result) {
	r := results[0]
	s.printf(`booked, real  the most acts in any half-open second [t, t + 1 s): as booked, by
              the server's clock, and as they really happened, by ours
capacity      acts booked in the %s from a way's first one, of %d x %d = %d
calls         to Redis, for a decision; one that books past the end counts too
longest wait  of a worker for one permit
`, seconds(r.Duration), experiment.Limit, int(r.Duration/time.Second), r.Possible())
	if r.Stalled > 0 {
		s.printf(`
This machine stood still for %s of the run: nobody asked for the permits of
that time, and nobody is blamed for them.
`, r.Stalled.Round(10*time.Millisecond))
	}
	if lateness(results) {
		s.printf(`
Real is above booked where a worker woke some milliseconds late. If the other
side counts that hard, ask for a window a little longer: see --margin 20ms.
`)
	}
}

// lateness reports whether acts of our scripts came closer together than they were booked.
func lateness(results []experiment.Result) bool {
	for _, r := range results {
		if r.Kind != experiment.Faulty && r.MostReal() > experiment.Limit {
			return true
		}
	}
	return false
}
