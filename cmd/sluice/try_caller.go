package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/trycaller"
	"github.com/sluice-redis/sluice/internal/localredis"
)

func parseTryCaller(args []string) (o trycaller.Options, err error) {
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
	err = parseOnlyFlags(flags, args)
	switch {
	case err != nil:
	case len(o.Command) == 0:
		err = usagef("want -- and COMMAND")
	case o.Redis != "" && (o.Cluster || o.Vectors != ""):
		err = usagef("--redis goes without --in-cluster and --vectors")
	case o.Redis != "" && !strings.HasPrefix(o.Redis, "redis://"):
		err = usagef("--redis: want redis://, because the proxy reads what is sent")
	case o.Within <= 0:
		err = usagef("--within: want more than 0")
	}
	if err == nil && o.Redis == "" {
		var programs []string
		if programs, err = localredis.Programs(); err == nil {
			o.Binary = programs[0]
		}
	}
	return o, err
}

// tryCaller prints a line for each thing that was tried, and what cures what failed.
func (a app) tryCaller(ctx context.Context, args []string) error {
	o, err := parseTryCaller(args)
	if err != nil {
		return err
	}
	o.Stderr = a.stderr
	out := newScreen(a.stdout)
	var failed []trycaller.Row
	err = trycaller.Run(ctx, o, func(rows ...trycaller.Row) {
		verdict, seen := out.paint(green, "ok  "), ""
		for _, row := range rows {
			if row.Cure != "" {
				verdict = out.paint(red, "FAIL")
				failed = append(failed, row)
			}
			seen += fmt.Sprintf("%-24s  ", row.Property+": "+row.Seen)
		}
		out.printf("%s  %-38s  %s\n", verdict, rows[0].Tried, strings.TrimSpace(seen))
	})
	if o.Redis != "" {
		out.printf("left out with --redis: restarts, SCRIPT FLUSH, vectors, whether the ACL line is enough\n")
	}
	for _, row := range failed {
		out.printf("\nFAIL %s, %s: %s\ncure: %s\n", row.Property, row.Tried, row.Seen, row.Cure)
	}
	if err == nil && len(failed) > 0 {
		err = errReported
	}
	return err
}
