// Sluice is the command line for the scripts. It lists them, loads them on the nodes of a deployment and verifies that
// they are loaded, prints Redis users for them, shows, resets and changes what they store, tries callers in any
// language, and checks policy files and tries them on an access log.
package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	_ "time/tzdata" // zones of policy files, where the machine has none

	"github.com/redis/go-redis/v9/logging"

	"github.com/sluice-redis/sluice"
)

// Exit statuses of the program.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitWarned      = 3 // verify: warnings only
	exitNothing     = 3 // what was asked about is not stored
	exitInterrupted = 130
)

func main() {
	logging.Disable() // the errors say the same as go-redis's log
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	status := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(status)
}

// app is one run of the program: its input, its outputs and its environment.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
}

type command struct {
	name    string
	summary string
	run     func(app, context.Context, []string) error
}

func commands() []command {
	return []command{
		{name: "list", summary: "the scripts: name, version, SHA1, keys and arguments", run: app.list},
		{name: "load", summary: "load the scripts on every node of a deployment", run: app.load},
		{name: "verify", summary: "check that every node has them, and that they decide", run: app.verify},
		{name: "acl", summary: "print three Redis users: for loading, for using and for looking", run: app.acl},
		{name: "inspect", summary: "what is stored for one subject, as a picture and in words", run: app.inspect},
		{name: "top", summary: "the subjects with the most permits stored, with little load", run: app.top},
		{name: "reset", summary: "unblock a subject: remove what is stored for it", run: app.reset},
		{name: "set-rate", summary: "set the rate of one subject of a token_bucket", run: app.setRate},
		{name: "try-caller", summary: "try a caller of the scripts, in any language, against faults", run: app.tryCaller},
		{name: "policy", summary: "limits in a file: check, explain, and replay an access log", run: app.policy},
		{name: "help", summary: "this text, or that of one command", run: app.help},
		{name: "version", summary: "the version of this program, and the sums of its scripts", run: app.version},
	}
}

// usageError reports a wrong command line and says what is wanted. Its text shows the user's arguments only through
// the function given.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// errReported ends a command whose output already says what is wrong.
var errReported = errors.New("reported")

// errWarned ends a command that found nothing broken, and something to see to, which its output says.
var errWarned = errors.New("warned")

// errHelp asks for the usage text of the command.
var errHelp = errors.New("help wanted")

// run runs the command named in args and returns the exit status.
func (a app) run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		fmt.Fprint(a.stderr, overview())
		return exitUsage
	}
	if args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		args[0] = "help"
	} else if args[0] == "--version" {
		args[0] = "version"
	}
	c, err := findCommand(args[0])
	if err != nil {
		return a.failed("", err)
	}
	err = c.run(a, ctx, args[1:])
	switch {
	case errors.Is(err, errHelp):
		fmt.Fprint(a.stdout, usageOf(c.name))
		return exitDone
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(a.stderr, "interrupted")
		return exitInterrupted
	}
	return a.failed(c.name, err)
}

// failed prints an error, and what to do about it if that is known. It returns the exit status.
func (a app) failed(name string, err error) int {
	if err == nil {
		return exitDone
	}
	switch {
	case errors.Is(err, errReported):
		return exitFailed
	case errors.Is(err, errNothing):
		return exitNothing
	case errors.Is(err, errWarned):
		return exitWarned
	}
	out := screen{w: a.stderr}
	prefix := strings.TrimSpace("sluice "+name) + ": "
	for _, line := range linesOf(err) {
		out.printf("%s%s\n", prefix, line)
		prefix = ""
	}
	if _, ok := errors.AsType[*usageError](err); ok {
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
	fmt.Fprint(a.stdout, usageOf(c.name))
	return nil
}

// usageFiles holds what sluice help <command> prints. A line {{target}} stands for the flags that name a deployment.
//
//go:embed usage
var usageFiles embed.FS

func usageOf(command string) string {
	return strings.Replace(usageFile(command), "{{target}}\n", usageFile("target"), 1)
}

func usageFile(name string) string {
	text, err := usageFiles.ReadFile("usage/" + name + ".txt")
	if err != nil {
		panic(err) // the files are part of the program
	}
	return string(text)
}

func overview() string {
	var text strings.Builder
	text.WriteString("sluice: rate limits for Redis, as versioned Lua scripts\n\n")
	text.WriteString("usage: sluice <command> [flags] [arguments]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&text, "  %-10s %s\n", c.name, c.summary)
	}
	text.WriteString("\nsluice help <command> explains a command.\n")
	return text.String()
}

func (a app) version(_ context.Context, args []string) error {
	if err := parseOnlyFlags(newFlags("version"), args); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "sluice %s, %s\n", built(), runtime.Version())
	for _, script := range sluice.All() {
		fmt.Fprintf(a.stdout, "%s  %s\n", script.SHA1, script.File)
	}
	for _, library := range sluice.Libraries() {
		fmt.Fprintf(a.stdout, "%s  %s\n", library.SHA1, library.File)
	}
	return nil
}

// built returns the version that the go command recorded and, of a build from a checkout, the commit.
func built() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	text := cmp.Or(info.Main.Version, "(devel)")
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			text += ", commit " + setting.Value
		}
	}
	return text
}
