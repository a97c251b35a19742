package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/sluice-redis/sluice"
)

func (a app) version(_ context.Context, args []string) error {
	if err := parseOnlyFlags(newFlags("version"), args); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "sluice %s, %d scripts, %s\n", moduleVersion(), len(sluice.All()), runtime.Version())
	return nil
}

// moduleVersion returns the version recorded by the go command: "(devel)" for a build from a checkout.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
