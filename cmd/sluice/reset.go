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
	serverFlags
	dryRun bool
	config bool
	noScan bool
}

// resetting holds the subject to reset and those of its keys whose names are known without a scan.
type resetting struct {
	subject string
	keys    []stored.Key
}

func parseReset(args []string) (resetFlags, resetting, error) {
	var f resetFlags
	flags := f.register("reset")
	flags.BoolVar(&f.dryRun, "dry-run", false, "")
	flags.BoolVar(&f.config, "config", false, "")
	flags.BoolVar(&f.noScan, "no-scan", false, "")
	limiter, subject, w, err := parseSubject(flags, args, "prefix", "slice", "lease_age", "client")
	if err != nil {
		return f, resetting{}, err
	}
	keys, err := keysBy(limiter, subject, w, func(script sluice.Script) []sluice.Key { return script.Keys })
	return f, resetting{subject, keys}, err
}

func (a app) reset(ctx context.Context, args []string) error {
	f, todo, err := parseReset(args)
	if err != nil {
		return err
	}
	out, rdb, release, err := a.openHolder(ctx, f.serverFlags, todo.keys[0])
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

// findAll looks for every key of the subject. If it may not scan, it checks the keys whose names are known.
func (a app) findAll(ctx context.Context, rdb *redis.Client, f resetFlags, todo resetting) search {
	named := inspection{keys: todo.keys}
	found := named.newSearch(rdb)
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

// remover removes keys, or shows what it would remove, and prints the result for each.
type remover struct {
	screen
	resetFlags
	rdb     *redis.Client
	gone    int   // keys removed, or that would be
	failed  int   // keys not removed, or perhaps not
	unknown int   // keys of no known script
	err     error // the first
}

// removeAll removes the keys that were found. It stops when the server does not answer.
func (r *remover) removeAll(ctx context.Context, found search) error {
	if len(found.keys) == 0 {
		if found.missed == nil {
			r.nothingStored(found)
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

// see removes one key or says why it stays.
func (r *remover) see(ctx context.Context, text string) {
	key, known := stored.ParseKey(text)
	script, _ := key.Script()
	if key.IsID() {
		script, known = sluice.BudgetV1, true
	}
	switch {
	case !known:
		r.unknown++
		r.line(yellow, "unknown", text, ": no known script has such a key, so it stays")
	case key.IsConfig() && !r.config:
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
	r.printf("  %s%s%s\n", r.paint(as, pad(what, len("would go  "))), key, remark)
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

// missed returns the error of a search that may have missed keys. If the user asked for that, it prints a note.
func (r *remover) missed(todo resetting, found search) error {
	switch {
	case found.missed == nil:
		return nil
	case found.missed == errNotScanned && len(found.keys) > 0:
		r.printf("note: there may be more: %s\n", found.missed)
		return nil
	}
	return fmt.Errorf("it is not known whether more is stored for %s: %w", strings.TrimSpace(todo.subject), found.missed)
}
