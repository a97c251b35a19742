package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

// policy runs one of the commands about a policy file.
func (a app) policy(ctx context.Context, args []string) error {
	verbs := map[string]func(context.Context, []string) error{
		"check": a.policyCheck, "explain": a.policyExplain, "replay": a.policyReplay,
	}
	if len(args) == 0 {
		return usagef("want check, explain or replay")
	}
	if run, found := verbs[args[0]]; found {
		return run(ctx, args[1:])
	}
	if strings.HasPrefix(args[0], "-") {
		return parseOnlyFlags(newFlags("policy"), args)
	}
	return usagef("there is no command policy %s: want check, explain or replay", given(args[0]))
}

// readPolicies reads a policy file. It prints what is wrong in it.
func (a app) readPolicies(path string) (*policy.File, error) {
	file, err := policy.ParseFile(path)
	if unread, ok := errors.AsType[*os.PathError](err); ok {
		return nil, unread
	}
	mistakes, ok := errors.AsType[policy.Mistakes](err)
	if !ok {
		return file, err
	}
	for _, line := range strings.Split(mistakes.Error(), "\n") {
		screen{w: a.stderr}.printf("%s\n", line)
	}
	return nil, errReported
}

// policyInput is what check and explain work with.
type policyInput struct {
	out    screen
	path   string
	file   *policy.File
	others []string // the arguments behind the file
}

// openPolicy reads the flags and the file of a command.
func (a app) openPolicy(command string, args []string) (in policyInput, err error) {
	words, err := parseFlags(newFlags("policy "+command), args)
	if err == nil && len(words) == 0 {
		err = usagef("want a policy file")
	}
	if err != nil {
		return in, err
	}
	in.path, in.others, in.out = words[0], words[1:], newScreen(a.stdout)
	in.file, err = a.readPolicies(in.path)
	return in, err
}

// policyCheck says for each limit of a file what it is.
func (a app) policyCheck(_ context.Context, args []string) error {
	in, err := a.openPolicy("check", args)
	if err == nil && len(in.others) > 0 {
		err = usagef("unexpected argument %s", given(in.others[0]))
	}
	if err != nil {
		return err
	}
	server, err := replay.NewServer()
	if err != nil {
		return err
	}
	defer server.Close()
	for i, p := range in.file.Policies {
		if i > 0 {
			in.out.printf("\n")
		}
		if err := in.out.checked(server, p); err != nil {
			return err
		}
	}
	return nil
}

// checked prints what a limit is.
func (s screen) checked(server *replay.Server, p *policy.Policy) error {
	keys, keyErr := keysUnder(server, sampleOf(p))
	counts, ring, err := countsOf(server, p)
	if err := errors.Join(keyErr, err); err != nil {
		return err
	}
	mode := string(p.Mode)
	if p.Mode == policy.Shadow {
		mode += ": a denial is only reported"
	}
	s.printf("%s\n", s.paint(bold, p.Name))
	s.fact("when", p.When)
	s.fact("mode", mode)
	s.facts("key", keys)
	s.facts("rates", ratesOf(p))
	s.fact("plan", p.Plan)
	s.fact("script", scriptReason(p))
	s.fact("counts", counts)
	s.fact("memory", memoryOf(p, ring))
	s.fact("empty", string(p.Empty))
	s.fact("cost", p.Cost)
	s.fact("count", p.Count)
	s.fact("ban", banText(p))
	if p.Delay > 0 {
		s.fact("delay", windowText(p.Delay)+" at most, in place of a refusal")
	}
	s.fact("fail", p.Fail.String())
	var overrides []string
	for _, o := range p.Overrides {
		text := cmp.Or(o.Subject, o.Network) + ": " + overrideText(p, o)
		if !o.Active(time.Now()) {
			text += ": it has ended, and can be removed"
		}
		overrides = append(overrides, text)
	}
	s.facts("overrides", overrides)
	return nil
}

// banText says for how many refusals a subject is banned.
func banText(p *policy.Policy) string {
	if p.Ban.Permits == 0 {
		return ""
	}
	return rateText(p.Ban) + " refusals, in " + p.BanName()
}

// overrideText says what an override allows.
func overrideText(p *policy.Policy, o policy.Override) string {
	text := p.Show(o.Rates) + " until " + o.Until.UTC().Format("2006-01-02 15:04:05 UTC")
	if o.Reason != "" {
		text += " (" + o.Reason + ")"
	}
	return text
}

// fact prints a line of a limit, unless there is nothing to say.
func (s screen) fact(name, text string) {
	if text != "" {
		s.printf("  %-11s%s\n", name, text)
	}
}

// facts prints a line of a limit for each text, the name on the first.
func (s screen) facts(name string, texts []string) {
	for _, text := range texts {
		s.fact(name, text)
		name = ""
	}
}

// sampleOf is a match of a policy, with its expressions for the key.
func sampleOf(p *policy.Policy) policy.Match {
	m := policy.Match{Policy: p, Rates: p.Rates, Cost: 1, Subject: "<" + strings.Join(p.By, "|") + ">"}
	for _, plan := range p.Plans {
		if len(plan.Rates) > 0 {
			m.Rates = plan.Rates
		}
		if len(m.Rates) > 0 && m.Rates[0].Permits > 0 {
			break
		}
	}
	return m
}

// keysUnder returns the keys of a match in Redis; none if all rates are 0, because then Redis is not asked.
func keysUnder(server *replay.Server, m policy.Match) ([]string, error) {
	if m.Rates[0].Permits == 0 {
		return []string{"none: the rate is 0"}, nil
	}
	if _, err := m.Limiter(server.Limits()).Peek(context.Background(), m.Subject); err != nil {
		return nil, err
	}
	return server.Last().Keys, nil
}

// ratesOf is the rates of a policy, a line for each plan.
func ratesOf(p *policy.Policy) (lines []string) {
	if len(p.Plans) == 0 {
		return []string{p.Show(p.Rates)}
	}
	for _, plan := range p.Plans {
		lines = append(lines, plan.Name+": "+cmp.Or(p.Show(plan.Rates), "not limited"))
	}
	return lines
}

func rateList(rates []loader.Limit) string {
	var all []string
	for _, rate := range rates {
		all = append(all, rateText(rate))
	}
	return strings.Join(all, ", ")
}

// scriptReason is the script of a policy, and why it was chosen.
func scriptReason(p *policy.Policy) string {
	switch {
	case p.Period != "":
		return "quota, of a " + p.Period + " in " + p.Zone.String()
	case !p.Chosen:
		return p.Script + ", as the file says"
	case p.Script == "list_log":
		return "list_log, chosen: the smallest that counts one window exactly"
	case len(sampleOf(p).Rates) > 1 || len(p.Plans) > 1:
		return p.Script + ", chosen: list_log counts only one window"
	}
	return p.Script + ", chosen: list_log holds at most 1000000 permits"
}

// Bytes that a key takes in Redis, its name and entry included; docs/operations.md has how they were measured.
const (
	keyBytes     = 280
	permitBytes  = 10.1 // list_log
	smallMember  = 41   // zset_log, up to 128 permits
	memberBytes  = 129  // zset_log, more permits
	smallMembers = 128
	sliceBytes   = 6
)

// plansOf are the rates of each plan.
func plansOf(p *policy.Policy) (plans [][]loader.Limit) {
	for _, plan := range p.Plans {
		plans = append(plans, plan.Rates)
	}
	if plans == nil {
		plans = [][]loader.Limit{p.Rates}
	}
	return plans
}

// memoryOf says how much Redis a subject may take. ring is what countsOf returns.
func memoryOf(p *policy.Policy, ring int64) string {
	most := int64(0)
	for _, rate := range slices.Concat(plansOf(p)...) {
		most = max(most, rate.Permits)
	}
	bytes := int64(keyBytes)
	switch p.Script {
	case "list_log":
		bytes += int64(permitBytes * float64(most))
	case "zset_log":
		if bytes += most * smallMember; most > smallMembers {
			bytes = keyBytes + most*memberBytes
		}
	case "slice_ring":
		bytes = max(bytes, ring)
	}
	return "about " + size(bytes) + " of Redis for each key"
}

// countsOf says of a slice_ring how long a permit counts in each window, and how many bytes the windows of a plan take.
func countsOf(server *replay.Server, p *policy.Policy) (text string, bytes int64, err error) {
	if p.Script != "slice_ring" {
		return "", 0, nil
	}
	var windows []string
	for _, rates := range plansOf(p) {
		if slices.ContainsFunc(rates, func(rate loader.Limit) bool { return rate.Permits == 0 }) {
			continue // nothing is asked
		}
		m := sampleOf(p)
		m.Rates = rates
		if _, err := keysUnder(server, m); err != nil {
			return "", 0, err
		}
		sum := int64(0)
		for i, rate := range rates {
			slice, sliceErr := strconv.ParseInt(server.Last().Args[2+3*i], 10, 64)
			n, sizeErr := strconv.ParseInt(server.Last().Args[3+3*i], 10, 64)
			if err := errors.Join(sliceErr, sizeErr); err != nil {
				return "", 0, err
			}
			window := windowText(rate.Window) + " up to " + windowText(micros(slice*n))
			if !slices.Contains(windows, window) {
				windows = append(windows, window)
			}
			sum += keyBytes + sliceBytes*n
		}
		bytes = max(bytes, sum)
	}
	return strings.Join(windows, ", "), bytes, nil
}

// size is a number of bytes as text.
func size(bytes int64) string {
	switch {
	case bytes < 10_000:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 10_000_000:
		return fmt.Sprintf("%d KB", (bytes+999)/1000)
	}
	return fmt.Sprintf("%d MB", (bytes+999_999)/1_000_000)
}
