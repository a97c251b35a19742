package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/internal/dial"
)

// visit is what was found on a node, or on all nodes.
type visit struct {
	placed []placement
	found  []finding
	keys   int // looked at for a TTL
}

func (v *visit) add(other visit) {
	v.placed = append(v.placed, other.placed...)
	v.found = append(v.found, other.found...)
	v.keys += other.keys
}

// severity says what a finding does to the exit status.
type severity string

const (
	fault   severity = "fault"   // 1: limiters fail, or would after a failover
	warning severity = "warning" // 3: they work, and may fail or forget
	note    severity = "note"    // none: it could not be checked
)

// finding is one thing that is not as it should be. The codes are for programs and stay.
type finding struct {
	Severity severity `json:"severity"`
	Code     string   `json:"code"`
	Node     string   `json:"node"`
	Script   string   `json:"script,omitempty"`
	Text     string   `json:"text"`
	Cure     string   `json:"cure,omitempty"`
}

// verdict is the error for the worst finding.
func (v visit) verdict() error {
	is := func(s severity) bool {
		return slices.ContainsFunc(v.found, func(f finding) bool { return f.Severity == s })
	}
	switch {
	case is(fault):
		return errReported
	case is(warning):
		return errWarned
	}
	return nil
}

// partial returns what remarks on the one node of a deployment say of others, which nobody has looked at.
func partial(n node, remarks []string) (found []finding) {
	for _, remark := range remarks {
		f := finding{Severity: warning, Code: "partial", Node: n.addr, Text: remark,
			Cure: "name the whole deployment: --cluster, or --sentinel"}
		if remark == remarkUnknown {
			f.Severity, f.Cure = note, "ACL SETUSER <name> +info"
		}
		found = append(found, f)
	}
	return found
}

func (s screen) findings(all []finding) {
	looks, cures := map[severity]style{fault: red, warning: yellow}, map[string]bool{"": true}
	for _, f := range all {
		s.printf("%s: %s: %s\n", s.paint(looks[f.Severity], string(f.Severity)), f.Node, f.Text)
		if !cures[f.Cure] {
			s.printf("cure: %s\n", f.Cure)
		}
		cures[f.Cure] = true
	}
}

// report prints everything as JSON. What is missing or failed is a finding too.
func (d deployment) report(s screen, seen visit, remarks []string, cure safe) error {
	type scriptJSON struct {
		Node   string `json:"node"`
		Role   string `json:"role"`
		Script string `json:"script"`
		SHA1   string `json:"sha1"`
		State  state  `json:"state"`
	}
	all := struct {
		Verdict  severity     `json:"verdict"`
		Scripts  []scriptJSON `json:"scripts"`
		Findings []finding    `json:"findings"`
		Notes    []string     `json:"notes,omitempty"`
		Keys     int          `json:"keys_looked_at"`
	}{Verdict: "ok", Findings: []finding{}, Notes: remarks, Keys: seen.keys}
	var lacking []finding
	for _, p := range seen.placed {
		all.Scripts = append(all.Scripts, scriptJSON{p.node.addr, p.node.role, p.script, p.sha, p.state})
		f := finding{Severity: fault, Code: "missing", Node: p.node.addr, Script: p.script, Text: string(p.state)}
		switch {
		case p.lacks():
			f.Cure = string(cure)
		case p.err != nil:
			f.Code, f.Text, f.Cure = codeOf(p.err), errorText(p.err), cureFor(p.err)
		default:
			continue
		}
		lacking = append(lacking, f)
	}
	seen.found = append(lacking, seen.found...)
	all.Findings = append(all.Findings, seen.found...)
	err := seen.verdict()
	switch err {
	case errReported:
		all.Verdict = fault
	case errWarned:
		all.Verdict = warning
	}
	return errors.Join(s.json(all), err)
}

// codeOf is the code of a fault.
func codeOf(err error) string {
	text := strings.ToLower(err.Error())
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case dial.IsUnreachable(err):
		return "unreachable"
	case has("unknown command") && has("evalsha"):
		return "no_lua"
	case has("unknown command"), has("unknown redis command"):
		return "no_command"
	case has("noperm"), has("noauth"), has("wrongpass"), has(dial.RefusedInScript):
		return "no_right"
	case has("oom command not allowed"):
		return "memory_full"
	}
	return "failed"
}

// examination looks at the state of one server.
type examination struct {
	visit
	deployment
	node node
	rdb  *redis.Client
}

// rightsToLook are those that an application's user lacks.
const rightsToLook = "+info +command|info +scan +dbsize +pttl +llen +zcard +config|get"

// run makes every check that the user may make.
func (e *examination) run(ctx context.Context) {
	checks := []struct {
		what string
		make func(context.Context) error
	}{{"memory", e.memory}, {"renamed commands", e.commands}, {"keys", e.lookAtKeys}}
	for _, check := range checks {
		if check.what == "keys" && e.node.role == "replica" {
			continue // its master has the same
		}
		if err := check.make(ctx); err != nil {
			cure := cureFor(withRights(err, "ACL SETUSER <name> "+rightsToLook))
			e.find(note, "not_checked", cure, "not checked: %s: %s", check.what, errorText(err))
		}
	}
}

func (e *examination) find(s severity, code, cure, format string, args ...any) {
	e.found = append(e.found,
		finding{Severity: s, Code: code, Node: e.node.addr, Text: fmt.Sprintf(format, args...), Cure: cure})
}

// memory reads INFO, because CONFIG is often refused.
func (e *examination) memory(ctx context.Context) error {
	text, err := e.rdb.Info(ctx).Result()
	if err != nil {
		return err
	}
	info := parseInfo(text)
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(info[name], 10, 64)
		return n
	}
	policy, used, limit, evicted := info["maxmemory_policy"], number("used_memory"), number("maxmemory"),
		number("evicted_keys")
	percent := 100 * used / max(limit, 1)
	switch {
	case limit == 0:
	case strings.HasPrefix(policy, "allkeys"), policy != "noeviction" && evicted > 0:
		e.find(warning, "eviction", "CONFIG SET maxmemory-policy noeviction, or a server of its own for limiters",
			"with %s a full server removes limiters in use (%d keys so far, %d %% full)", policy, evicted, percent)
	case percent >= 90:
		e.find(warning, "memory_low", "raise maxmemory, or find out what fills the server: redis-cli --bigkeys",
			"%d %% of maxmemory are used: under %s, grants fail or limiters are removed at 100 %%", percent, policy)
	}
	return nil
}

// commands asks for those that the scripts call.
func (e *examination) commands(ctx context.Context) error {
	names := commandsOf(e.scripts)
	slices.Sort(names)
	names = slices.Compact(names)
	args := []any{"command", "info"}
	for _, name := range names {
		args = append(args, name)
	}
	known, err := e.rdb.Do(ctx, args...).Slice()
	if err != nil {
		return err
	}
	var missing []string
	for i, name := range names {
		if i < len(known) && known[i] == nil {
			missing = append(missing, strings.ToUpper(name))
		}
	}
	if len(missing) > 0 {
		e.find(fault, "no_command", "take the rename-command of each back: scripts call them by their names",
			"the server does not know %s, which the scripts call", strings.Join(missing, ", "))
	}
	return nil
}

// A try looks at so many pages of a server's keys at most, which are 10000 keys.
const maxPages = 10000 / searchPage

// Redis frees an expired key of this size in its main thread for 1 ms or so, unless it is told to do so lazily.
const bigZSet, bigList = 10_000, 3_000_000

var errEnough = errors.New("enough keys")

// lookAtKeys looks for keys without a TTL, and for big ones.
func (e *examination) lookAtKeys(ctx context.Context) error {
	var eternal, big []string
	all := scan{pattern: e.prefix + ":*:{*}:*", page: searchPage, share: searchShare}
	pages := 0
	_, err := all.run(ctx, e.rdb, func(page []string) error {
		var ttls []*redis.DurationCmd
		var sizes []*redis.IntCmd
		var keys []stored.Key
		pipe := e.rdb.Pipeline()
		for _, text := range page {
			key, ours := stored.ParseKey(text)
			if !ours && !key.IsID() || key.IsConfig() { // a config that an operator has set never expires
				continue
			}
			size := pipe.LLen
			if key.Code == "zl1" {
				size = pipe.ZCard
			}
			keys, ttls, sizes = append(keys, key), append(ttls, pipe.PTTL(ctx, text)), append(sizes, size(ctx, text))
		}
		if err := stored.Exec(ctx, pipe); err != nil {
			return err
		}
		for i, key := range keys {
			if err := ttls[i].Err(); err != nil {
				return err
			}
			if ttls[i].Val() == -1 {
				eternal = append(eternal, key.Text)
			}
			if n := sizes[i].Val(); n >= bigList || n >= bigZSet && key.Code == "zl1" {
				big = append(big, key.Text)
			}
		}
		e.keys += len(keys)
		if pages++; pages == maxPages {
			return errEnough
		}
		return nil
	})
	if len(eternal) > 0 {
		e.find(warning, "no_ttl", "find who removes TTLs (PERSIST, RESTORE), then remove the state: sluice reset",
			"%d of the %d keys looked at never expire, such as %s", len(eternal), e.keys, eternal[0])
	}
	if len(big) > 0 {
		err = errors.Join(err, e.lazyFree(ctx, big))
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return err
}

// lazyFree asks how big keys are freed.
func (e *examination) lazyFree(ctx context.Context, big []string) error {
	const option = "lazyfree-lazy-expire"
	config, err := e.rdb.ConfigGet(ctx, option).Result()
	if err != nil {
		return fmt.Errorf("%s, which big keys such as %s want: %w", option, big[0], err)
	}
	if config[option] == "no" {
		e.find(warning, "lazyfree", "CONFIG SET "+option+" yes", "%d of the %d keys looked at are so big that the server "+
			"stops when they expire, such as %s", len(big), e.keys, big[0])
	}
	return nil
}
