package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/experiment"
)

// recommendedMargin is how much longer our windows are than those that the payment API counts. A worker may act
// late by that much without breaking its limit.
const recommendedMargin = 20 * time.Millisecond

type demoFlags struct {
	serverFlags
	workers  int
	duration time.Duration
	margin   time.Duration
}

func parseDemo(args []string) (demoFlags, error) {
	var f demoFlags
	flags := f.register("demo")
	flags.IntVar(&f.workers, "workers", 20, "")
	lengthFlag(flags, &f.duration, "duration", 12*time.Second)
	lengthFlag(flags, &f.margin, "margin", recommendedMargin)
	if err := parseOnlyFlags(flags, args); err != nil {
		return f, err
	}
	switch {
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
	embedded := f.target == targetFlags{} // whatever the environment says: the demo is for people without a server
	out, server, err := a.openPlace(f.serverFlags, embedded)
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

// introduce prints what the demo is about to do.
func (s screen) introduce(f demoFlags, server string, ways []experiment.Way) {
	s.printf("%s\n", s.paint(bold,
		fmt.Sprintf("A payment API takes %d calls in any second, wherever that second starts.", experiment.Limit)))
	s.printf("%d workers share it for %s, through each of %d limiters at once.\n", f.workers, seconds(f.duration),
		len(ways))
	if f.margin > 0 {
		s.printf("Our windows are %v long, so that workers may be %v late.\n", experiment.Window+f.margin, f.margin)
	}
	s.printf("Server: %s\n\n", server)
	for _, way := range ways {
		s.printf("  %s%s\n", s.paint(bold, pad(way.Name, gutter)), way.Text)
	}
	s.printf("\n")
}

// report draws the results on one screen of 80 x 24. It returns an error if one of our scripts broke a promise.
func (s screen) report(results []experiment.Result, margin time.Duration) error {
	s.disturbance(results, margin)
	s.legend()
	s.picture(results)
	s.printf("\n")
	s.comparison(results)
	s.printf("booked: most acts in any second by the server's clock; real: as they happened\n")
	s.printf("capacity: of %d acts; calls: to Redis; longest wait: for one permit\n", results[0].Possible())
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

// disturbance says how a busy machine changed the results. It prints nothing after an undisturbed run.
func (s screen) disturbance(results []experiment.Result, margin time.Duration) {
	text, again := "", "Run the same command again for undisturbed results."
	switch stalled := results[0].Stalled; {
	case stalled > 0:
		text = fmt.Sprintf("This machine stopped for %v during the run: no worker asked in that time.",
			stalled.Round(10*time.Millisecond))
	case !lateness(results):
		return
	case margin == 0:
		text, again = "Without a margin, every late worker shows in column real.",
			fmt.Sprintf("Run it again with --margin %v or more.", recommendedMargin)
	default:
		text = fmt.Sprintf("This machine woke workers later than the margin of %v allows: see column real.", margin)
	}
	s.printf("%s\n%s\n", s.paint(yellow, text), s.paint(yellow, again))
}

// comparison prints the table of all limiters.
func (s screen) comparison(results []experiment.Result) {
	var t table
	t.head("limiter", "booked", "real", "capacity", "calls", "a permit", "longest wait", "verdict")
	for _, r := range results {
		as, verdict := s.verdict(r)
		ofCalls, ofWait := plain, plain
		switch {
		case wasteful(r):
			ofCalls, ofWait = red, red
		case r.CallsPerPermit() > 2:
			ofCalls = yellow
		}
		t.add(
			cell{text: r.Name},
			cell{text: strconv.Itoa(r.MaxBooked()), right: true, as: s.judged(r.MaxBooked())},
			cell{text: strconv.Itoa(r.MaxReal()), right: true, as: s.judged(r.MaxReal())},
			cell{text: fmt.Sprintf("%.1f %%", 100*r.Capacity()), right: true},
			cell{text: strconv.Itoa(r.Calls), right: true},
			cell{text: fmt.Sprintf("%.2f", r.CallsPerPermit()), right: true, as: ofCalls},
			cell{text: fmt.Sprintf("%.1f s", r.LongestWait.Seconds()), right: true, as: ofWait},
			cell{text: verdict, as: as},
		)
	}
	t.print(s)
}

// verdict judges a result by the limit. A faulty limiter that kept the limit is judged by its requests to Redis.
func (s screen) verdict(r experiment.Result) (style, string) {
	switch {
	case r.MaxBooked() > experiment.Limit:
		return red, s.either("✗ broken", "BROKEN")
	case wasteful(r):
		return red, s.either("✗ wasteful", "WASTEFUL")
	case r.Kind == experiment.Faulty:
		return plain, "kept"
	}
	return green, s.either("✓ kept", "kept")
}

// wasteful reports whether a faulty limiter sent more than two requests for a permit. slice_ring may send more too,
// but only at the times that the script names.
func wasteful(r experiment.Result) bool { return r.Kind == experiment.Faulty && r.CallsPerPermit() > 2 }

// judged returns the style for a number of acts in a second.
func (s screen) judged(acts int) style {
	switch {
	case acts <= experiment.Limit:
		return green
	case acts == experiment.Limit+1:
		return yellow
	}
	return red
}

// lateness reports whether more acts of our scripts happened in a second than were booked for it.
func lateness(results []experiment.Result) bool {
	return slices.ContainsFunc(results, func(r experiment.Result) bool {
		return r.Kind != experiment.Faulty && r.MaxReal() > experiment.Limit
	})
}
