package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/trycaller"
)

// tryCaller prints a row for each thing that was tried, or for each property that failed, with what cures it.
func (a app) tryCaller(ctx context.Context, args []string) error {
	o := trycaller.Options{Stderr: a.stderr}
	if i := slices.Index(args, "--"); i >= 0 {
		args, o.Command = args[:i], args[i+1:]
	}
	flags := newFlags("try-caller")
	flags.StringVar(&o.Redis, "redis", "", "")
	flags.BoolVar(&o.Cluster, "in-cluster", false, "")
	flags.BoolVar(&o.Processes, "processes", false, "")
	flags.DurationVar(&o.Within, "within", 3*time.Second, "")
	flags.StringVar(&o.Vectors, "vectors", "", "")
	flags.StringVar(&o.Only, "only", "", "")
	err := parseOnlyFlags(flags, args)
	switch {
	case err != nil:
		return err
	case len(o.Command) == 0:
		return usagef("want -- and COMMAND")
	case o.Redis != "" && (o.Cluster || o.Vectors != ""):
		return usagef("--redis goes without --in-cluster and --vectors")
	case o.Redis != "" && !strings.HasPrefix(o.Redis, "redis://"):
		return usagef("--redis: want redis://, because the proxy reads what is sent")
	}
	out, failed := newScreen(a.stdout), false
	err = trycaller.Run(ctx, o, func(row trycaller.Row) {
		if row.Cure == "" {
			out.printf("%s  %-38s  %s\n", out.paint(green, "ok  "), row.Tried, row.Seen)
			return
		}
		failed = true
		out.printf("%s %s, %s: %s\ncure: %s\n", out.paint(red, "FAIL"), row.Property, row.Tried, row.Seen, row.Cure)
	})
	if err == nil && failed {
		err = errReported
	}
	return err
}
