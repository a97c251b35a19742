// Sluiced is a rate limit service over the scripts: Envoy's RateLimitService v3, forward auth for other proxies, and
// JSON. It reads policy files and the files of envoyproxy/ratelimit.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // zones of policy files, where the machine has none

	"github.com/redis/go-redis/v9/logging"
	"github.com/sluice-redis/sluice/internal/dial"
	"github.com/sluice-redis/sluice/policy/envoyfile"
)

// Exit statuses of the program.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

//go:embed usage.txt
var usage string

func main() {
	logging.Disable() // the errors say the same as go-redis's log
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	status := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(status)
}

// app is one run of the program: its outputs and its environment.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
}

// usageError reports a wrong command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// run runs the command named in args and returns the exit status.
func (a app) run(ctx context.Context, args []string) int {
	commands := map[string]func(context.Context, []string) error{
		"serve": a.serve, "check": a.check, "convert": a.convert, "version": a.version, "--version": a.version,
	}
	if len(args) == 0 {
		fmt.Fprint(a.stderr, usage)
		return exitUsage
	}
	if name := args[0]; name == "help" || name == "-h" || name == "-help" || name == "--help" {
		fmt.Fprint(a.stdout, usage)
		return exitDone
	}
	command := commands[args[0]]
	if command == nil {
		return a.failed(usagef("there is no command %.40q: want serve, check, convert, version or help", args[0]))
	}
	err := command(ctx, args[1:])
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(a.stdout, usage)
		return exitDone
	}
	return a.failed(err)
}

// failed prints an error, and returns the exit status.
func (a app) failed(err error) int {
	if err == nil {
		return exitDone
	}
	if _, inFiles := errors.AsType[*mistakes](err); inFiles {
		fmt.Fprintln(a.stderr, err)
		return exitFailed
	}
	fmt.Fprintf(a.stderr, "sluiced: %v\n", err)
	_, wrongFlag := errors.AsType[*usageError](err)
	_, wrongTarget := errors.AsType[*dial.UsageError](err)
	if wrongFlag || wrongTarget {
		fmt.Fprintln(a.stderr, "cure: see sluiced help")
		return exitUsage
	}
	return exitFailed
}

// check prints what is wrong in files.
func (a app) check(_ context.Context, args []string) error {
	paths, err := parseOnly("check", args)
	if err != nil {
		return err
	}
	read, err := readFiles(paths)
	if err != nil {
		return err
	}
	for _, text := range append(read.passed(), read.remarks()...) {
		fmt.Fprintln(a.stdout, text)
	}
	fmt.Fprintf(a.stdout, "no mistakes, files: %d\n", len(read.envoy)+len(read.policies))
	return nil
}

// convert prints the files of envoyproxy/ratelimit as one policy file.
func (a app) convert(_ context.Context, args []string) error {
	paths, err := parseOnly("convert", args)
	if err != nil {
		return err
	}
	read, err := readFiles(paths)
	if err != nil {
		return err
	}
	if len(read.envoy) == 0 {
		return usagef("%s is a policy file already: want a file with domain and descriptors", paths[0])
	}
	text, err := envoyfile.Convert(read.envoy)
	if err == nil {
		_, err = a.stdout.Write(text)
	}
	return err
}

func parseOnly(name string, args []string) (paths []string, err error) {
	flags := newFlags(name)
	if err = flags.Parse(args); err != nil {
		return nil, flagError(flags, err)
	}
	if flags.NArg() == 0 {
		return nil, usagef("%s wants files", name)
	}
	return flags.Args(), nil
}

// version prints the version that the module was built as.
func (a app) version(context.Context, []string) error {
	fmt.Fprintf(a.stdout, "sluiced %s\n", buildVersion())
	return nil
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
