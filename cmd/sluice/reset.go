package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

// resetFlags are the flags of reset.
type resetFlags struct {
	subjectFlags
	dryRun bool
	config bool
}

func (a app) reset(ctx context.Context, args []string) error {
	var f resetFlags
	flags := f.register("reset")
	flags.BoolVar(&f.dryRun, "dry-run", false, "")
	flags.BoolVar(&f.config, "config", false, "")
	others, err := parseFlags(flags, args)
	if err != nil {
		return err
	}
	targets, err := a.named(f.subjectFlags, others)
	if err != nil {
		return err
	}
	if others[0] == anyLimiter {
		return usagef("limiter is %q: want the name of one", anyLimiter)
	}
	rdb, begins, release, err := a.openSubject(ctx, f.serverFlags, f.prefix, targets...)
	if err != nil {
		return err
	}
	defer release()
	r := remover{screen: newScreen(a.stdout), resetFlags: f, rdb: rdb}
	r.head = func() { r.printf("%s on %s\n", r.paint(bold, strings.Join(begins, "* ")+"*"), rdb.Options().Addr) }
	var first, notes []string
	for i, target := range targets {
		rates, noted := target.says()
		keys, err := known(ctx, rdb, begins[i], windowsOf(rates))
		if err != nil {
			return err
		}
		first, notes = append(first, keys...), append(notes, without(noted, notes)...)
	}
	first = slices.DeleteFunc(first, func(text string) bool { return parsed(text).IsConfig() }) // others say whether it goes
	r.all(ctx, first)
	found := a.search(ctx, rdb, begins)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(found.keys) == 0 && found.missed == nil && len(first) == 0 {
		return a.nothingStored(ctx, f.subjectFlags, targets, found, notes)
	}
	r.stray = noBucket(slices.Concat(first, found.keys))
	r.all(ctx, without(found.keys, first))
	verb := "removed "
	if f.dryRun {
		verb = "would remove "
	}
	r.printf("%s%s\n", verb, counted(r.gone, "key", "keys"))
	return errors.Join(r.verdict(ctx, found), found.incomplete())
}

// all removes keys, until one gets no reply.
func (r *remover) all(ctx context.Context, keys []string) {
	if len(keys) > 0 {
		r.head()
		r.head = func() {}
	}
	for n, text := range keys {
		if r.err != nil && !stored.IsReply(r.err) || ctx.Err() != nil {
			r.failed += len(keys) - n
			r.line(red, "left", counted(len(keys)-n, "more key", "more keys"), ", not tried")
			return
		}
		r.see(ctx, text)
	}
}

// remover removes keys, or shows what it would remove, and prints the result for each.
type remover struct {
	screen
	resetFlags
	rdb     *redis.Client
	head    func() // prints the title, once
	stray   bool   // a rate is none of the limiter's
	gone    int    // keys removed, or that would be
	failed  int    // keys not removed, or perhaps not
	unknown int    // keys of no known script
	err     error  // the first
}

// noBucket reports whether keys of a subject are those of another script, and none holds permits of a token_bucket. A
// rate beside them was written by mistake.
func noBucket(keys []string) (other bool) {
	for _, text := range keys {
		key, known := stored.ParseKey(text)
		switch {
		case !known || key.IsConfig():
		case key.Config().IsConfig():
			return false
		default:
			other = true
		}
	}
	return other
}

// see removes one key or says why it stays.
func (r *remover) see(ctx context.Context, text string) {
	key, known := stored.ParseKey(text)
	script, _ := key.Script()
	if key.IsID() {
		script, known = sluice.BudgetV1(), true
	}
	switch {
	case !known:
		r.unknown++
		r.line(yellow, "unknown", text, ": no known script has such a key, so it stays")
	case key.IsConfig() && !r.config && !r.stray:
		r.line(plain, "stays", text, ": the rate; --config removes it too")
	case r.dryRun:
		r.gone++
		r.line(plain, "would go", text, " ("+fullName(script)+")")
	default:
		r.remove(ctx, text, fullName(script))
	}
}

// remove removes one key. What it prints follows the server's reply only.
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
		r.line(red, "unknown", text, ": no reply, so it may have been removed: "+errorText(err))
	}
	if err != nil {
		r.failed++
		if r.err == nil || !stored.IsReply(err) {
			r.err = err
		}
	}
}

func (r *remover) line(as style, what, key, remark string) {
	r.printf("  %s%s%s\n", r.paint(as, fmt.Sprintf("%-10s", what)), key, remark)
}

// verdict returns the error for keys that are or may be still there.
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
		errs = append(errs, fmt.Errorf("it is not known what %s: a newer sluice may know; UNLINK removes keys",
			counted(r.unknown, "key is", "keys are")))
	}
	return errors.Join(errs...)
}
