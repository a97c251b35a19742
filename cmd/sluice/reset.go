package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

const resetUsage = `usage: sluice reset [flags] <limiter> <subject> [name=value ...]

Removes what the scripts hold against one subject: its next call is decided as
if it were the first. It asks nothing; --dry-run shows what would go. It says
key by key what went, what stays, and what it could not remove.

It finds the keys as sluice inspect does: by SCAN through all keys of the server
that has the subject (in a cluster the master of its slot), then removes each by
UNLINK. With prefix=sluice unless that is given.

The rate of a token_bucket stays unless --config is given. A key that no script
of this version has stays, too, and is named. Permits that a process holds as a
lease, and denials that it remembers, are not in Redis: they end by themselves.

` + targetUsage + `  --dry-run         removes nothing and shows what would go
  --config          removes the rate of a token_bucket, too, so that its callers
                    set theirs again. sluice set-rate changes it
  --no-scan         only keys that the arguments name: slice= (and lease_age=)
                    for a slice_ring, client= for one's permits
  --color WHEN      auto (the default), always or never

  sluice reset --dry-run send-code ada@example.com
  sluice reset send-code ada@example.com

The rights that the user needs, which are not those of sluice acl:

  ACL SETUSER night on >secret resetchannels ~sluice:* +scan +exists +unlink

--no-scan works without +scan, --dry-run without +unlink; a cluster wants
+cluster|slots besides. SCAN shows the names of all keys.

The exit status is 0 if all keys of the subject were seen and each has gone, or
stays as it should, or if there were none; 1 if one could not be removed or is
not known, or if not all was seen: a server did not answer or refused, a slot is
moving, --no-scan found nothing. The message names the server and what it said.
`

// resetFlags are the flags of reset.
type resetFlags struct {
	target targetFlags
	dryRun bool
	config bool
	noScan bool
	color  string
}

// resetting is what is to be removed: the keys of a subject of which the names are known without a scan.
type resetting struct {
	subject string
	keys    []stored.Key
}

func parseReset(args []string) (resetFlags, resetting, error) {
	var f resetFlags
	flags := newFlags("reset")
	f.target.register(flags)
	flags.BoolVar(&f.dryRun, "dry-run", false, "")
	flags.BoolVar(&f.config, "config", false, "")
	flags.BoolVar(&f.noScan, "no-scan", false, "")
	flags.StringVar(&f.color, "color", "auto", "")
	others, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return f, resetting{}, err
	case len(others) < 2:
		return f, resetting{}, usagef("want a limiter and a subject")
	}
	w, err := parseWords(others[2:])
	if err != nil {
		return f, resetting{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(w.values)) {
		if !slices.Contains([]string{"prefix", "slice", "lease_age", "client"}, name) {
			return f, resetting{}, usagef("reset has no %s: want prefix, slice, lease_age or client", given(name))
		}
	}
	keys, err := allKeysOf(others[0], others[1], w)
	return f, resetting{others[1], keys}, err
}

// allKeysOf are the keys of a subject, those of permits beside their config too, as far as the arguments name them.
func allKeysOf(limiter, subject string, w words) ([]stored.Key, error) {
	return keysBy(limiter, subject, w, func(script sluice.Script) []sluice.Key { return script.Keys })
}

func (a app) reset(ctx context.Context, args []string) error {
	f, todo, err := parseReset(args)
	if err != nil {
		return err
	}
	out, err := a.newScreen(a.stdout, f.color)
	if err != nil {
		return err
	}
	t, err := a.target(f.target)
	if err != nil {
		return err
	}
	rdb, release, err := t.holder(ctx, todo.keys[0].Text)
	if err != nil {
		return err
	}
	defer release()
	found := a.findAll(ctx, rdb, f, todo)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r := remover{screen: out, resetFlags: f, rdb: rdb}
	return errors.Join(r.removeAll(ctx, found), r.missed(todo, found))
}

// findAll looks for every key of the subject. Where it may not go through all of them, it asks for those whose names
// are known.
func (a app) findAll(ctx context.Context, rdb *redis.Client, f resetFlags, todo resetting) search {
	named := inspection{keys: todo.keys}
	found := named.search(rdb)
	found.missed = errNotScanned
	if !f.noScan {
		found = a.search(ctx, rdb, named)
	}
	if found.missed == nil {
		return found
	}
	for _, key := range todo.keys {
		n, err := rdb.Exists(ctx, key.Text).Result()
		switch {
		case err != nil && found.missed == errNotScanned:
			found.missed = fmt.Errorf("asking %s for %s: %w", found.node, key.Text, err)
		case n > 0 && !slices.Contains(found.keys, key.Text):
			found.keys = append(found.keys, key.Text)
		}
		if err != nil && !stored.IsReply(err) {
			break
		}
	}
	slices.Sort(found.keys)
	return found
}

// remover removes keys, or shows what it would remove, and says of each how that went.
type remover struct {
	screen
	resetFlags
	rdb     *redis.Client
	gone    int   // that were removed, or would be
	failed  int   // that were to be removed, and were not or may not have been
	unknown int   // of no script here
	err     error // the first
}

// removeAll removes what was found. It stops where the server does not answer any more.
func (r *remover) removeAll(ctx context.Context, found search) error {
	if len(found.keys) == 0 {
		if found.missed == nil {
			r.printf("nothing is stored under %s on %s\n", found.pattern, found.node)
		}
		return nil
	}
	r.printf("%s on %s\n", r.paint(bold, found.pattern), found.node)
	for n, text := range found.keys {
		if r.err != nil && !stored.IsReply(r.err) || ctx.Err() != nil {
			r.failed += len(found.keys) - n
			r.line(red, "left", counted(len(found.keys)-n, "more key", "more keys"), ", not tried")
			break
		}
		r.see(ctx, text)
	}
	verb := "removed "
	if r.dryRun {
		verb = "would remove "
	}
	r.printf("%s%s\n", verb, counted(r.gone, "key", "keys"))
	return r.verdict(ctx, found)
}

// see does to one key what is right for it.
func (r *remover) see(ctx context.Context, text string) {
	key, known := stored.ParseKey(text)
	script, _ := key.Script()
	switch {
	case !known:
		r.unknown++
		r.line(yellow, "unknown", text, ": no script here has such a key, so it stays")
	case key.IsConfig() && !r.config:
		r.line(plain, "stays", text, ": the rate; --config removes it, too")
	case r.dryRun:
		r.gone++
		r.line(plain, "would go", text, " ("+fullName(script)+")")
	default:
		r.remove(ctx, text, fullName(script))
	}
}

// remove removes one key. Only what the server says is said of it.
func (r *remover) remove(ctx context.Context, text, script string) {
	n, err := r.rdb.Unlink(ctx, text).Result()
	switch {
	case err == nil && n == 0:
		r.line(plain, "expired", text, " ("+script+"), before it could be removed")
	case err == nil:
		r.gone++
		r.line(green, "removed", text, " ("+script+")")
	case stored.IsReply(err):
		r.line(red, "left", text, ": "+errorText(err))
	default:
		r.line(red, "unknown", text, ": no reply, so it may have gone: "+errorText(err))
	}
	if err != nil {
		r.failed++
		if r.err == nil || !stored.IsReply(err) {
			r.err = err
		}
	}
}

func (r *remover) line(as style, what, key, remark string) {
	r.printf("  %s%s%s\n", r.paint(as, pad(what, len("would go  "))), key, remark)
}

// verdict is the error of keys that are still there, or may be.
func (r *remover) verdict(ctx context.Context, found search) error {
	var errs []error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case r.err != nil:
		errs = append(errs, fmt.Errorf("not removed: %s under %s on %s: %w", counted(r.failed, "key", "keys"), found.pattern,
			found.node, r.err))
	}
	if r.unknown > 0 {
		errs = append(errs, fmt.Errorf("it is not known what %s: a newer sluice may have them, or UNLINK removes them",
			counted(r.unknown, "key is", "keys are")))
	}
	return errors.Join(errs...)
}

// missed is the error of a search that may not have seen all keys, and says so on the screen where that was wanted.
func (r *remover) missed(todo resetting, found search) error {
	switch {
	case found.missed == nil:
		return nil
	case found.missed == errNotScanned && len(found.keys) > 0:
		r.printf("note: there may be more: %s\n", found.missed)
		return nil
	}
	return fmt.Errorf("not known whether more is stored for %s: %w", strings.TrimSpace(todo.subject), found.missed)
}
