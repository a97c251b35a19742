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
booked for one second; less than 99 % of the capacity (slice_ring: 90 %) that
the margin leaves, where two permits lost at the ends do not count; more than
one call for a permit (except slice_ring, which cannot book).

  --redis URL       on this server: redis://[user:password@]host:port[/db], or
                    rediss:// for TLS; the keys expire by themselves
  --cluster LIST    on a cluster, or on what sentinels watch, as in
  --sentinel LIST   sluice help load
  --duration D      whole seconds, 2s to 10m (default 12s)
  --workers N       for each way, 5 to 200 (default 20)
  --margin D        makes our windows longer than the second that is audited, so
                    that a worker that is late harms nobody (default 20ms, which
                    costs 2 % of the capacity; 0 shows what lateness does)
  --color WHEN      auto (the default: on a terminal, unless NO_COLOR is set),
                    always or never
`

// recommendedMargin is by how much the windows of our limiters are longer than those that the other side counts: a
// worker that wakes that late harms nobody.
const recommendedMargin = 20 * time.Millisecond

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
	lengthFlag(flags, &f.margin, "margin", recommendedMargin)
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
		s.printf("The windows of our scripts are %v long: %v for workers that wake late.\n",
			experiment.Window+f.margin, f.margin)
	}
	s.printf("Server: %s\n\n", server)
	for _, way := range ways {
		s.printf("  %s%s\n", s.paint(bold, pad(way.Name, gutter)), way.Text)
	}
	s.printf("\n")
}

// report draws the results on one screen of 80 x 24, and fails when one of our scripts has broken a promise.
func (s screen) report(results []experiment.Result, margin time.Duration) error {
	s.disturbance(results, margin)
	s.legend()
	s.picture(results)
	s.printf("\n")
	s.comparison(results)
	s.notes(results)
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

// disturbance says what the machine did to the run, and nothing where it did nothing.
func (s screen) disturbance(results []experiment.Result, margin time.Duration) {
	text, again := "", "Run the same command again for a picture of the limiters alone."
	switch stalled := results[0].Stalled; {
	case stalled > 0:
		text = fmt.Sprintf("This machine stood still for %v of the run: nobody asked in that time.",
			stalled.Round(10*time.Millisecond))
	case !lateness(results):
		return
	case margin == 0:
		text, again = "Without a margin every worker that wakes late shows in real.",
			fmt.Sprintf("Run it again with --margin %v, or more.", recommendedMargin)
	default:
		text = fmt.Sprintf("This machine woke workers later than the margin of %v allows: see real.", margin)
	}
	s.printf("%s\n%s\n", s.paint(yellow, text), s.paint(yellow, again))
}

// comparison is the table of all ways.
func (s screen) comparison(results []experiment.Result) {
	var t table
	t.head("way", "booked", "real", "capacity", "calls", "a permit", "longest wait", "verdict")
	for _, r := range results {
		as, verdict := s.verdict(r)
		t.add(
			cell{text: r.Name},
			cell{text: strconv.Itoa(r.MostBooked()), right: true, as: s.judged(r.MostBooked())},
			cell{text: strconv.Itoa(r.MostReal()), right: true, as: s.judged(r.MostReal())},
			cell{text: fmt.Sprintf("%.1f %%", 100*r.Capacity()), right: true},
			cell{text: strconv.Itoa(r.Calls), right: true},
			cell{text: fmt.Sprintf("%.2f", r.CallsPerPermit()), right: true, as: styleOfCalls(r)},
			cell{text: fmt.Sprintf("%.1f s", r.LongestWait.Seconds()), right: true, as: styleOfWait(r)},
			cell{text: verdict, as: as},
		)
	}
	t.print(s)
}

// verdict judges a way by the limit, and one of the faulty ways that kept it by what that took.
func (s screen) verdict(r experiment.Result) (style, string) {
	switch {
	case r.MostBooked() > experiment.Limit:
		return red, s.either("✗ broken", "BROKEN")
	case wasteful(r):
		return red, s.either("✗ wasteful", "WASTEFUL")
	case r.Kind == experiment.Faulty:
		return plain, "kept"
	}
	return green, s.either("✓ kept", "kept")
}

// wasteful reports whether a faulty way asked more than twice for a permit. slice_ring does so, too, but never before
// the script has said that it may.
func wasteful(r experiment.Result) bool { return r.Kind == experiment.Faulty && r.CallsPerPermit() > 2 }

func styleOfCalls(r experiment.Result) style {
	switch {
	case wasteful(r):
		return red
	case r.CallsPerPermit() > 2:
		return yellow
	}
	return plain
}

func styleOfWait(r experiment.Result) style {
	if wasteful(r) {
		return red
	}
	return plain
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
	s.printf("booked, real: most acts in any second, by the server's clock, as they happened\n")
	s.printf("capacity: of %d acts; calls: to Redis; longest wait: of a worker for a permit\n", results[0].Possible())
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
