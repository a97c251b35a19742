package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

// policyReplay decides the requests of an access log by a policy file.
func (a app) policyReplay(ctx context.Context, args []string) error {
	var rates []string
	flags := newFlags("policy replay")
	format := flags.String("format", "", "")
	asJSON := flags.Bool("json", false, "")
	zone := flags.String("zone", "", "")
	peer := flags.String("peer", "", "")
	flags.Func("rate", "", func(text string) error { rates = append(rates, text); return nil })
	words, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return err
	case len(words) < 2:
		return usagef("want a policy file and an access log, or - for standard input")
	case len(words) > 2:
		return usagef("unexpected argument %s: for several logs write zcat -f LOG LOG | sluice policy replay FILE -",
			given(words[2]))
	}
	config := replay.Config{Cores: runtime.GOMAXPROCS(0)}
	if config.File, err = a.readPolicies(words[0]); err != nil {
		return err
	}
	if config.Format, err = accesslog.NewFormat(*format, config.File.Attributes); err != nil {
		return usagef("--format %s: %v", given(*format), err)
	}
	if config.Format.Zone, err = zoneOf(*zone); err != nil {
		return usagef("--zone %s: want a name such as Europe/Berlin or UTC", given(*zone))
	}
	if config.Format.Peer = *peer; *peer != "" && !isAddress(*peer) {
		return usagef("--peer %s: want an address", given(*peer))
	}
	if config.Rates, err = ratesFor(config.File, rates); err != nil {
		return err
	}
	status := newScreen(a.stderr)
	config.Progress = func(lines int64) { status.redraw("%d lines", lines) }
	log, err := a.openLog(words[1])
	if err != nil {
		return err
	}
	defer log.Close()
	report, err := replay.Run(ctx, config, log)
	status.redraw("")
	if report == nil {
		return err
	}
	out := newScreen(a.stdout)
	if *asJSON {
		return errors.Join(out.json(report), err)
	}
	out.replayed(report, words[1])
	if err == nil && report.Requests == 0 && report.Lines > 0 {
		return errors.New("no line of the log could be read: see --format")
	}
	return err
}

// zoneOf returns the zone of a name, nil without one.
func zoneOf(name string) (*time.Location, error) {
	if name == "" {
		return nil, nil
	}
	return time.LoadLocation(name)
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// openLog opens a log, or standard input.
func (a app) openLog(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(a.stdin), nil
	}
	return os.Open(path)
}

// ratesFor reads rates to try: api=80/1m, or api:free=80/1m for one plan; several windows as the file has them.
func ratesFor(file *policy.File, texts []string) (map[replay.Rated][]loader.Limit, error) {
	all := map[replay.Rated][]loader.Limit{}
	for _, text := range texts {
		name, list, _ := strings.Cut(text, "=")
		of, rates, err := ratedIn(file, name)
		if err != nil {
			return nil, usagef("--rate %s: %v", given(text), err)
		}
		tried := strings.Split(list, ",")
		if len(tried) != len(rates.Rates) {
			return nil, usagef("--rate %s: want as many rates as the file has: %s=%s", given(text), name,
				strings.ReplaceAll(rates.Policy.Show(rates.Rates), " ", ""))
		}
		rates.Rates = append([]loader.Limit(nil), rates.Rates...)
		for i := range tried {
			rate, err := rateLike(rates.Policy, rates.Rates[i], tried[i])
			if err != nil {
				return nil, usagef("--rate %s: %v", given(text), err)
			}
			rates.Rates[i] = rate
		}
		all[of] = rates.Rates
	}
	return all, nil
}

// rateLike reads a rate in place of one of a policy: of a quota another number in the same period.
func rateLike(p *policy.Policy, of loader.Limit, text string) (rate loader.Limit, err error) {
	if permits, same := strings.CutSuffix(text, "/"+p.Period); p.Period != "" {
		rate.Window = of.Window
		if rate.Permits, err = strconv.ParseInt(permits, 10, 64); err != nil || !same || rate.Permits < 0 {
			return rate, fmt.Errorf("want permits and the period, as in 100/%s", p.Period)
		}
	} else if rate, err = parseRate(text); err != nil {
		return rate, err
	}
	rate.Burst = of.Burst
	return rate, nil
}

// ratedIn finds the limit, and the plan, that a name is of.
func ratedIn(file *policy.File, name string) (replay.Rated, policy.Match, error) {
	limit, plan, _ := strings.Cut(name, ":")
	names := namesOf(file.Policies, func(p *policy.Policy) string { return p.Name })
	for _, p := range file.Policies {
		if p.Name != limit {
			continue
		}
		if len(p.Plans) == 0 && plan == "" {
			return replay.Rated{Policy: limit}, policy.Match{Policy: p, Rates: p.Rates}, nil
		}
		for _, one := range p.Plans {
			if one.Name == plan {
				return replay.Rated{Policy: limit, Plan: plan}, policy.Match{Policy: p, Plan: plan, Rates: one.Rates}, nil
			}
		}
		plans := namesOf(p.Plans, func(p policy.Plan) string { return limit + ":" + p.Name })
		names = append(plans, names...)[:max(len(plans), 1)]
	}
	return replay.Rated{}, policy.Match{}, fmt.Errorf("want one of %s", strings.Join(names, ", "))
}

// replayed prints the report.
func (s screen) replayed(r *replay.Report, log string) {
	if none := r.Requests - r.Matched; none > 0 {
		s.printf("%s\n", s.paint(yellow, fmt.Sprintf("no limit was applied to %d of %s; for %d the log does not say enough",
			none, counted(int(r.Requests), "request", "requests"), r.Unknown)))
	}
	s.readLines(r, log)
	if r.Requests == 0 {
		return
	}
	s.printf("\n")
	s.byPolicy(r)
	s.keys("The busiest keys", r.Busiest)
	if slices.ContainsFunc(r.MostDenied, func(k replay.Key) bool { return !slices.Contains(r.Busiest, k) }) {
		s.keys("Denied most often", r.MostDenied)
	}
}

// readLines says what was read.
func (s screen) readLines(r *replay.Report, log string) {
	s.printf("%s: %s", s.paint(bold, log), counted(int(r.Lines), "line", "lines"))
	if r.Requests > 0 {
		s.printf(", %s to %s UTC", r.From.Format(time.DateTime), r.To.Format(time.DateTime))
	}
	s.printf("\n")
	if r.Unread > 0 {
		s.printf("%s\n", s.paint(yellow, counted(int(r.Unread), "line", "lines")+" could not be read:"))
		for _, bad := range r.Bad {
			s.printf("  line %d: %s\n", bad.Line, bad.Why)
		}
		if more := r.Unread - int64(len(r.Bad)); more > 0 {
			s.printf("  and %d more\n", more)
		}
	}
	if r.Late > 0 {
		s.printf("%s\n", s.paint(yellow, counted(int(r.Late), "request was", "requests were")+
			fmt.Sprintf(" more than %v out of order, and decided later than at their times", replay.MaxDisorder)))
	}
	for _, n := range r.NotApplied {
		s.printf("%s\n", s.paint(yellow, fmt.Sprintf("%s could not be applied to %s: the log does not say enough", n.Policy,
			counted(int(n.Requests), "request", "requests"))))
		s.printf("  line %d: %s\n", n.Line, n.Why)
	}
}

// byPolicy prints the totals.
func (s screen) byPolicy(r *replay.Report) {
	s.printf("%s of %s would have been denied: %s\n\n", s.paint(bold, fmt.Sprint(r.Denied)),
		counted(int(r.Requests), "request", "requests"), percent(r.Denied, r.Requests))
	var t table
	t.head("limit", "requests", "granted", "denied", "share", "keys", "keys denied", "")
	for _, p := range r.Policies {
		as := plain
		if p.Denied+p.Refused > 0 {
			as = red
		}
		t.add(
			cell{text: p.Name},
			number(p.Requests, plain),
			number(p.Granted+p.Free, plain),
			number(p.Denied+p.Refused, as),
			cell{text: percent(p.Denied+p.Refused, p.Requests), right: true, as: as},
			number(p.Keys, plain),
			number(p.KeysDenied, plain),
			cell{text: remarks(p)},
		)
	}
	t.print(s)
}

func number(n int64, as style) cell { return cell{text: fmt.Sprint(n), right: true, as: as} }

// percent is a share, which is 0 % only if there is nothing.
func percent(part, of int64) string {
	share := 100 * float64(part) / float64(max(of, 1))
	if part > 0 && share < 0.01 {
		return "< 0.01 %"
	}
	return fmt.Sprintf("%.2f %%", share)
}

// remarks says what else became of a policy's requests.
func remarks(p replay.Policy) string {
	var all []string
	add := func(n int64, text string) {
		if n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, text))
		}
	}
	if p.Mode == policy.Shadow {
		all = append(all, "shadow")
	}
	add(p.Overridden, "by overrides")
	add(p.Free, "not charged")
	add(p.Refused, "empty keys")
	add(p.Withdrawn, "denied by others")
	add(p.Failed, "failed")
	return strings.Join(all, ", ")
}

// keys prints some keys with their requests.
func (s screen) keys(title string, keys []replay.Key) {
	if len(keys) == 0 {
		return
	}
	s.printf("\n%s:\n\n", title)
	var t table
	t.head("limit", "requests", "denied", "share", "key")
	for _, k := range keys {
		as := plain
		if k.Denied > 0 {
			as = red
		}
		t.add(cell{text: k.Policy}, number(k.Requests, plain), number(k.Denied, as),
			cell{text: percent(k.Denied, k.Requests), right: true}, cell{text: k.Subject})
	}
	t.print(s)
}
