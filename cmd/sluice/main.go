// Sluice is the command line of the script bundle: it shows the scripts at work, lists them, puts them
// on the nodes of a deployment, checks that they are there, says what users may do with them, shows what they
// store, and makes single decisions by hand.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

// What the program's exit status says.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	logging.Disable() // what go-redis would say is in the errors, too
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	status := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(status)
}

// app is one run of the program: where it writes and what surrounds it.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
}

// command is one word of the command line.
type command struct {
	name    string
	summary string
	usage   string
	run     func(app, context.Context, []string) error
}

func commands() []command {
	return []command{
		{"demo", "5 a second, shared by many workers: every script beside faulty ways", demoUsage, app.demo},
		{"list", "the scripts: name, version, SHA1, keys and arguments", listUsage, app.list},
		{"load", "put the scripts on every node of a deployment", loadUsage, app.load},
		{"verify", "check that every node has them", verifyUsage, app.verify},
		{"acl", "three users for Redis: may load, may use what is loaded, may look", aclUsage, app.acl},
		{"inspect", "what is stored for one subject, as a picture and in words", inspectUsage, app.inspect},
		{"top", "the busiest subjects, without hurting the server", topUsage, app.top},
		{"reset", "unblock a subject: remove what is stored for it", resetUsage, app.reset},
		{"set-rate", "set the rate of a token_bucket for all its callers", setRateUsage, app.setRate},
		{"try", "make one decision by hand", tryUsage, app.try},
		{"help", "this text, or that of one command", helpUsage, app.help},
		{"version", "the version of this program", versionUsage, app.version},
	}
}

const helpUsage = `usage: sluice help [command]
`

// usageError is a command line that cannot be understood; it says what would be right. What the user gave stands in it
// by given alone.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// errReported ends a command whose output has said already what is wrong.
var errReported = errors.New("reported")

// errHelp asks for the usage text of the command.
var errHelp = errors.New("help wanted")

// run runs the command that args name and returns the exit status.
func (a app) run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		fmt.Fprint(a.stderr, overview())
		return exitUsage
	}
	if args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		args[0] = "help"
	}
	c, err := findCommand(args[0])
	if err != nil {
		return a.failed("", err)
	}
	err = c.run(a, ctx, args[1:])
	switch {
	case errors.Is(err, errHelp):
		fmt.Fprint(a.stdout, c.usage)
		return exitDone
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(a.stderr, "interrupted")
		return exitInterrupted
	}
	return a.failed(c.name, err)
}

// failed reports an error, with its cure where one is known, and returns the exit status for it.
func (a app) failed(name string, err error) int {
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errReported) {
		return exitFailed
	}
	out := screen{w: a.stderr}
	prefix := strings.TrimSpace("sluice "+name) + ": "
	for _, line := range linesOf(err) {
		out.printf("%s%s\n", prefix, line)
		prefix = ""
	}
	var usage *usageError
	if errors.As(err, &usage) {
		out.printf("%s\n", strings.TrimSpace("cure: see sluice help "+name))
		return exitUsage
	}
	if cure := cureFor(err); cure != "" {
		out.printf("cure: %s\n", cure)
	}
	return exitFailed
}

func findCommand(name string) (command, error) {
	for _, c := range commands() {
		if c.name == name {
			return c, nil
		}
	}
	return command{}, usagef("there is no command %s", given(name))
}

func (a app) help(_ context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(a.stdout, overview())
		return nil
	}
	if strings.HasPrefix(args[0], "-") {
		return errHelp
	}
	c, err := findCommand(args[0])
	if err != nil {
		return err
	}
	fmt.Fprint(a.stdout, c.usage)
	return nil
}

func overview() string {
	var text strings.Builder
	text.WriteString("sluice: rate limits that Redis decides, in versioned Lua scripts\n\nusage: sluice <command> [flags] [arguments]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&text, "  %-9s %s\n", c.name, c.summary)
	}
	text.WriteString("\nsluice help <command> explains one. sluice demo needs no server at all.\n")
	return text.String()
}
