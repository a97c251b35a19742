package main

import (
	"context"
	"time"

	"github.com/sluice-redis/sluice/internal/demo"
	"github.com/sluice-redis/sluice/internal/dial"
)

func (a app) demo(ctx context.Context, args []string) error {
	var f serverFlags
	c := demo.Config{Out: a.stdout}
	flags := f.register("demo")
	flags.IntVar(&c.Workers, "workers", 20, "")
	lengthFlag(flags, &c.Duration, "duration", 12*time.Second)
	lengthFlag(flags, &c.Margin, "margin", demo.DefaultMargin)
	if err := parseOnlyFlags(flags, args); err != nil {
		return err
	}
	switch {
	case c.Workers < 5 || c.Workers > 200:
		return usagef("--workers is %d: want 5 to 200", c.Workers)
	case c.Duration < 2*time.Second || c.Duration > 10*time.Minute || c.Duration%time.Second != 0:
		return usagef("--duration is %v: want whole seconds, 2s to 10m", c.Duration)
	case c.Margin < 0 || c.Margin > time.Second || c.Margin%time.Microsecond != 0:
		return usagef("--margin is %v: want 0 to 1s, in whole microseconds", c.Margin)
	}
	out, t, err := a.open(f)
	if err != nil {
		return err
	}
	if c.Terminal = out.live; f.target != (dial.Flags{}) { // whatever the environment says: a demo needs no server
		c.Server, c.Connect = t.String(), t.Client
	}
	return demo.Run(ctx, c)
}
