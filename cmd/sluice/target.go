package main

import (
	"flag"

	"github.com/sluice-redis/sluice/internal/dial"
)

// serverFlags are the flags of every command that asks servers.
type serverFlags struct{ target dial.Flags }

// register returns a command's flag set with these flags.
func (f *serverFlags) register(command string) *flag.FlagSet {
	flags := newFlags(command)
	f.target.Register(flags)
	return flags
}

// target is a Redis deployment and how to connect to it.
type target struct{ dial.Target }

// target reads the flags and the environment.
func (a app) target(f dial.Flags) (target, error) {
	t, err := dial.Find(f, a.getenv)
	if err != nil {
		return target{}, usagef("%v", err)
	}
	return target{t}, nil
}

// open returns the screen on standard output and the deployment that the flags name.
func (a app) open(f serverFlags) (screen, target, error) {
	t, err := a.target(f.target)
	return newScreen(a.stdout), t, err
}
