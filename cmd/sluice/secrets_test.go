package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/redistest"
)

// Marks that stand in every password of these tests, with the bytes under test between them. None of them may be seen.
const (
	markA = "Xq7j"
	markB = "Zk9w"
	markC = "Wv4h"
)

// passwordOf is a password with any bytes in it.
func passwordOf(first, second string) string { return markA + first + markB + second + markC }

// wantHidden fails if a part of a password can be seen in what a run wrote.
func wantHidden(t *testing.T, got outcome, what string) {
	t.Helper()
	all := strings.ToLower(got.stdout + got.stderr)
	for _, mark := range []string{markA, markB, markC} {
		if strings.Contains(all, strings.ToLower(mark)) {
			t.Errorf("%q shows %s: status %d\n%s%s", what, mark, got.status, got.stdout, got.stderr)
			return
		}
	}
}

// targetCommands are the subcommands that take a target, with what they want besides.
func targetCommands(passwords string) [][]string {
	return [][]string{
		{"load"}, {"verify"}, {"top"}, {"inspect", "a", "b"}, {"inspect", "sluice:a:{b}:ll1"},
		{"reset", "a", "b"}, {"reset", "--no-scan", "--dry-run", "a", "b"}, {"set-rate", "a", "b", "rate=1", "interval=1s"},
		{"try", "list_log", "limit=3", "window=1m"}, {"demo", "--duration=2s"},
		{"acl", "--apply", "--password-file", passwords},
	}
}

// spellings are ways, right and wrong, in which people write a password into a target at an address.
func spellings(password, addr string) [][]string {
	escaped := url.UserPassword("ada", password).String()
	var all [][]string
	for _, form := range []string{
		"redis://:%p@%a", "redis://ada:%p@%a", "redis://%p@%a", "redis://:%p@%a/0", "redis://:%p@%a/%p",
		"redis://:%p@%a?db=%p",
		"redis://%a?password=%p", "redis://%a/?password=%p&auth=%p", "redis://%a#%p", "redis://:%p@%a#%p", "redis://:%p/x@%a",
		"redis://:1234/%p@%a", "redis://:1234#%p@%a", "redis://:1234?%p@%a", "redis://:%p?x@%a",
		"redis://:%p@%a?dial_timeout=%p",
		"redis://:%p@%a?pool_fifo=%p", "redis://:%p@%a/0/%p", "redis:/:%p@%a", "redis:%p@%a", "redis//:%p@%a",
		"redis:///:%p@%a",
		"redis:://:%p@%a", "rediss:/:%p@%a", "reids://:%p@%a", "%p://:%p@%a", "http://ada:%p@%a", ":%p@%a", "ada:%p@%a",
		"//:%p@%a",
		"redis://:%p%zz@%a", "redis://:%zz%p@%a", "redis://:%p@[%a", "redis://:%p@%a:%p", "redis://:%p@%a%",
		"redis://:%p@ %a",
		"unix://:%p@%a/%p/none.sock", "unix:///none/:%p@x", "unix://:%p/none@/none.sock", "%e@%a", "redis://%e@%a",
		"redis://%e@%a/x",
	} {
		text := strings.NewReplacer("%p", password, "%a", addr, "%e", escaped).Replace(form)
		all = append(all, []string{"--redis", text}, []string{"--redis=" + text})
		if strings.Contains(form, "@%a") {
			text = strings.TrimPrefix(text, "redis://")
			all = append(all, []string{"--cluster", text}, []string{"--cluster", text + "," + addr}, []string{"--cluster",
				addr + "," + text})
			text = strings.TrimSuffix(text, addr)
			all = append(all, []string{"--sentinel", text + "main@" + addr})
			if strings.Contains(text, ":") { // else it is the name of a master
				all = append(all, []string{"--sentinel", text + addr}, []string{"--sentinel", "main@" + text + addr})
			}
		}
	}
	wrong := "redis://:" + password + "@" + addr
	return append(all, []string{wrong}, []string{"--" + wrong}, []string{"---redis=" + wrong}, []string{"--rdeis=" +
		wrong},
		[]string{"--color", wrong}, []string{"--redis", addr, wrong}, []string{"--redis", addr, "x=" + wrong},
		[]string{"--n=" + wrong},
		[]string{"--json=" + wrong}, []string{"--times", wrong}, []string{"--workers", wrong}, []string{"--margin", wrong},
		[]string{"--name", wrong}, []string{"--prefix", wrong}, []string{"--script", wrong}, []string{"--password-file",
			password},
		[]string{"--limiter", wrong}, []string{"--format", wrong})
}

// hostilePasswords are bytes that stand between the marks of a password.
var hostilePasswords = [][2]string{
	{"", ""}, {"/", ""}, {"", "/x"}, {",", ","}, {"@", ""}, {"@", ":"}, {":", "@"}, {"%", "zz"}, {"%zz", "%"}, {"%2",
		"%41"}, {"#", "#"},
	{"?", "&"}, {"?password=", "="}, {" ", "\t"}, {"\n", "\r"}, {"\x00", "\x1b[31m"}, {"\xff", "\xc3"}, {"[", "]"},
	{"]:", "["},
	{"\\", "\\n"}, {"'", "\""}, {"`", "$("}, {"\u202e", "\u200b"}, {"日", "é"}, {"://", "//"}, {"@127.0.0.1:1,", "@"},
	{"@/", "/@"},
	{";", "|"}, {"<", ">"}, {"%0a", "%00"}, {"/@x/", "?@y#"}, {"redis://", "unix://"}, {strings.Repeat("a", 300), ""},
}

// passwordRun is a run of a subcommand: its environment, and what stands behind the subcommand.
type passwordRun struct{ env, flags []string }

// passwordRuns are all spellings, and those in the environment.
func passwordRuns(password, addr string) []passwordRun {
	var all []passwordRun
	for _, flags := range spellings(password, addr) {
		all = append(all, passwordRun{nil, flags})
	}
	env := []string{"REDISCLI_AUTH=" + password, "SENTINEL_AUTH=" + password}
	for _, flag := range []string{"--redis=", "--cluster=", "--sentinel=main@"} {
		all = append(all, passwordRun{env, []string{flag + addr}})
	}
	for _, url := range []string{"redis://:" + password + "@" + addr, password + "@" + addr} {
		all = append(all, passwordRun{[]string{"SLUICE_REDIS=" + url}, nil})
	}
	return all
}

// hides runs a subcommand and fails if it shows a password. A demo asks no server of the environment.
func (r passwordRun) hides(t *testing.T, command []string) {
	t.Helper()
	if command[0] == "demo" && r.flags == nil {
		return
	}
	args := append(append([]string{}, command...), r.flags...)
	wantHidden(t, sluiceRun(r.env, args...), strings.Join(append(r.env, args...), " "))
}

// TestPasswordsAreHidden goes through all spellings of all passwords with verify, and of the plainest ones with the
// other subcommands, at a dead address and with servers that repeat what they were sent.
func TestPasswordsAreHidden(t *testing.T) {
	addrs := []string{"127.0.0.1:1", fakeServer(t, unknownCommand), fakeServer(t, repeats)}
	for i, command := range append([][]string{{"verify"}}, targetCommands(passwordFile(t))...) {
		passwords := hostilePasswords
		if i > 0 {
			passwords, addrs = passwords[:2], addrs[len(addrs)-2:]
		}
		for _, between := range passwords {
			for _, addr := range addrs {
				for _, run := range passwordRuns(passwordOf(between[0], between[1]), addr) {
					run.hides(t, command)
				}
			}
		}
	}
}

// TestServerPasswordsAreHidden asks a real server with a password that it does not take.
func TestServerPasswordsAreHidden(t *testing.T) {
	addr := redistest.Start(t, "--requirepass", "secret").Addr
	password := passwordOf("/", "%")
	for _, command := range targetCommands(passwordFile(t)) {
		got := sluiceRun([]string{"REDISCLI_AUTH=" + password}, append(command, "--redis", addr)...)
		wantHidden(t, got, fmt.Sprint(command))
		if got.status != exitFailed || !strings.Contains(got.stdout+got.stderr, "WRONGPASS") {
			t.Errorf("%s: status %d\n%s%s", command, got.status, got.stdout, got.stderr)
		}
	}
}

// FuzzPasswordsAreHidden puts any bytes between the marks of a password, in one spelling, subcommand and server at a
// time.
func FuzzPasswordsAreHidden(f *testing.F) {
	for i, between := range hostilePasswords {
		f.Add(between[0], between[1], uint(i))
	}
	addrs := []string{"127.0.0.1:1", fakeServer(f, repeats)}
	f.Fuzz(func(t *testing.T, first, second string, which uint) {
		commands := targetCommands("/none")
		command, which := commands[which%uint(len(commands))], which/uint(len(commands))
		addr, which := addrs[which%2], which/2
		runs := passwordRuns(passwordOf(first, second), addr)
		runs[which%uint(len(runs))].hides(t, command)
	})
}

// TestURLInTheWrongPlace tests a URL with a password where a limiter or a prefix belongs: the message does not repeat
// it.
func TestURLInTheWrongPlace(t *testing.T) {
	const url = "redis://:Xq7jZk9wWv4h@127.0.0.1:1"
	for _, args := range [][]string{
		{"inspect", url, "ada"}, {"inspect", "x", "ada", "prefix=" + url}, {"reset", url, "ada"},
		{"set-rate", url, "ada", "rate=1", "interval=1s"}, {"top", "--limiter", url}, {"top", "--prefix", url},
		{"try", "gcra", "limit=1", "window=1s", "burst=1", "limiter=" + url}, {"acl", "--prefix", url},
	} {
		got := sluiceRun(nil, args...)
		wantHidden(t, got, args[0])
		wantText(t, got, exitUsage, "not shown: it may hold a password")
	}
}
