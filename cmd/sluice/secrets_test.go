package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
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
var targetCommands = [][]string{
	{"verify"}, {"verify", "--try", "--json"}, {"load"}, {"top"}, {"inspect", "a", "b"}, {"inspect", "sluice:a:{b}:ll1"}, {"reset", "a", "b"},
	{"set-rate", "a", "b", "1/1s"},
}

// spellings are ways, right and wrong, in which people write a password into a target at an address.
func spellings(password, addr string) (all [][]string) {
	escaped := url.UserPassword("ada", password).String()
	for _, form := range []string{
		"redis://:%p@%a", "redis://ada:%p@%a", "redis://%p@%a", "redis://:%p@%a/%p", "redis://:%p@%a?db=%p",
		"redis://%a?password=%p", "redis://%a#%p", "redis://:%p/x@%a", "redis://:1234/%p@%a", "redis://:1234#%p@%a",
		"redis://:1234?%p@%a", "redis://:%p@%a?dial_timeout=%p", "redis:/:%p@%a", "redis:%p@%a", "redis//:%p@%a",
		"redis:://:%p@%a", "reids://:%p@%a", "%p://:%p@%a", "http://ada:%p@%a", ":%p@%a", "ada:%p@%a", "redis://:%zz%p@%a",
		"redis://:%p@[%a", "redis://:%p@%a:%p", "redis://:%p@ %a", "unix://:%p@%a/%p/none.sock", "unix:///none/:%p@x",
		"%e@%a", "redis://%e@%a/x",
	} {
		text := strings.NewReplacer("%p", password, "%a", addr, "%e", escaped).Replace(form)
		all = append(all, []string{"--redis", text}, []string{"--redis=" + text})
		if strings.Contains(form, "@%a") {
			text = strings.TrimPrefix(text, "redis://")
			all = append(all, []string{"--cluster", text}, []string{"--cluster", addr + "," + text})
			if text = strings.TrimSuffix(text, addr); strings.Contains(text, ":") { // else it is the name of a master
				all = append(all, []string{"--sentinel", text + addr}, []string{"--sentinel", "main@" + text + addr})
			}
		}
	}
	wrong := "redis://:" + password + "@" + addr
	for _, flag := range []string{"", "--", "---redis=", "--rdeis=", "x=", "--n=", "--json=", "--workers=", "--margin=",
		"--prefix=", "--limiter=", "--limit=", "--burst="} {
		all = append(all, []string{flag + wrong})
	}
	return append(all, []string{"--redis", addr, wrong})
}

// hostilePasswords are bytes that stand between the marks of a password.
var hostilePasswords = [][2]string{
	{"", ""}, {"/", ""}, {",", ","}, {"@", ":"}, {":", "@"}, {"%", "zz"}, {"%2", "%41"}, {"#", "#"}, {"?", "&"},
	{" ", "\t"},
	{"\n", "\r"}, {"\x00", "\x1b[31m"}, {"\xff", "\xc3"}, {"]:", "["}, {"'", "\""}, {"\u202e", "\u200b"}, {"://", "//"},
	{"@127.0.0.1:1,", "@"}, {"/@x/", "?@y#"}, {strings.Repeat("a", 300), ""},
}

// passwordRun is a run of a subcommand: its environment, and what stands behind the subcommand.
type passwordRun struct{ env, flags []string }

// passwordRuns are all spellings, and those in the environment.
func passwordRuns(password, addr string) (all []passwordRun) {
	for _, flags := range spellings(password, addr) {
		all = append(all, passwordRun{nil, flags})
	}
	env := []string{"REDISCLI_AUTH=" + password, "SENTINEL_AUTH=" + password}
	for _, flag := range []string{"--redis=", "--cluster=", "--sentinel=main@"} {
		all = append(all, passwordRun{env, []string{flag + addr}})
	}
	return append(all, passwordRun{[]string{"SLUICE_REDIS=redis://:" + password + "@" + addr}, nil})
}

// hides runs a subcommand and fails if it shows a password.
func (r passwordRun) hides(t *testing.T, command []string) {
	t.Helper()
	args := append(append([]string{}, command...), r.flags...)
	wantHidden(t, sluiceRun(r.env, args...), strings.Join(append(r.env, args...), " "))
}

// TestPasswordsAreHidden goes through all spellings of all passwords with verify, and of the plainest ones with the
// other subcommands, at a dead address and with servers that repeat what they were sent.
func TestPasswordsAreHidden(t *testing.T) {
	addrs := []string{"127.0.0.1:1", fakeServer(t, unknownCommand), fakeServer(t, repeats)}
	for i, command := range targetCommands {
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
	for _, command := range targetCommands {
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
		command, which := targetCommands[which%uint(len(targetCommands))], which/uint(len(targetCommands))
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
		{"inspect", url, "ada"}, {"inspect", "x", "ada", "--prefix", url}, {"reset", url, "ada"},
		{"set-rate", url, "ada", "1/1s"}, {"top", "--limiter", url}, {"top", "--prefix", url}, {"acl", "--prefix", url},
	} {
		got := sluiceRun(nil, args...)
		wantHidden(t, got, args[0])
		wantText(t, got, exitUsage, "not shown: it may hold a password")
	}
}
