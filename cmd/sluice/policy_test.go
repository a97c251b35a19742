package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/replay"
)

const policyFile = `limits:
  send-code:
    when: request.method == "POST" && request.path == "/code"
    by: request.ip
    rates: [3/1m, 20/24h]
    count: response.status < 500
    fail: open
  login:
    when: request.path == "/login"
    by: [request.ip]
    rates: [5/1m]
    mode: shadow
  api:
    when: request.path.startsWith("/api/")
    by: user.key
    plan: user.plan
    plans: {free: [60/1m], none: [0/1m]}
`

// inFile writes a file for a test.
func inFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestPolicyCheck(t *testing.T) {
	got := sluiceRun(nil, "policy", "check", inFile(t, "limits.yaml", policyFile))
	if got.status != 0 || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	golden(t, "policy_check", got.stdout)
}

func TestPolicyCheckMemory(t *testing.T) {
	for rates, want := range map[string]string{
		"[1000/month]\n    zone: Europe/Berlin": "quota, of a month in Europe/Berlin 280 B",
		"[3/1m]":                                "list_log, chosen: the smallest that counts one window exactly 310 B",
		"[1000000/1h]":                          "list_log, chosen: the smallest that counts one window exactly 11 MB",
		"[2000000/1h]":                          "slice_ring, chosen: list_log holds at most 1000000 permits 1486 B",
		"[5/1m, 9/1h]":                          "slice_ring, chosen: list_log counts only one window 2972 B",
		"[100/1m]\n    script: zset_log":        "zset_log, as the file says 4380 B",
		"[200/1m]\n    script: zset_log":        "zset_log, as the file says 27 KB",
		"[200/1m]\n    script: gcra":            "gcra, as the file says 280 B",
	} {
		file := "limits:\n  a:\n    by: request.ip\n    rates: " + rates + "\n"
		got := sluiceRun(nil, "policy", "check", inFile(t, "f.yaml", file))
		script, memory, _ := strings.Cut(want, " ")
		words := strings.Split(memory, " ")
		memory = strings.Join(words[len(words)-2:], " ")
		script += " " + strings.Join(words[:len(words)-2], " ")
		if !strings.Contains(got.stdout, "script     "+script+"\n") ||
			!strings.Contains(got.stdout, "memory     about "+memory+" of Redis") {
			t.Errorf("%s: no %q with %q in\n%s%s", rates, script, memory, got.stdout, got.stderr)
		}
	}
}

func TestPolicyMistakes(t *testing.T) {
	file := inFile(t, "limits.yaml", "limits:\n  a:\n    by: request.ip\n    rate: [3/1m]\n  b:\n    by: user.key\n"+
		"    rates: [3/x]\n")
	for _, args := range [][]string{{"check", file}, {"explain", file}, {"replay", file, "-"}} {
		got := sluiceRun(nil, append([]string{"policy"}, args...)...)
		if n := strings.Count(got.stderr, file+":"); got.status != 1 || n != 3 || got.stdout != "" {
			t.Errorf("%s: status %d, %d mistakes, want 3:\n%s%s", args[0], got.status, n, got.stdout, got.stderr)
		}
	}
}

func TestPolicyExitStatus(t *testing.T) {
	file := inFile(t, "limits.yaml", policyFile)
	for _, test := range []struct {
		args string
		want int
		says string
	}{
		{"", 2, "want check, explain or replay"},
		{"--help", 0, "usage: sluice policy check"},
		{"replay --help", 0, "usage: sluice policy check"},
		{"-x", 2, "there is no flag --x"},
		{"chek", 2, `there is no command policy "chek": want check, explain or replay`},
		{"check", 2, "want a policy file"},
		{"check FILE more", 2, `unexpected argument "more"`},
		{"check missing.yaml", 1, "sluice policy: stat missing.yaml: no such file or directory"},
		{"check .", 1, "sluice policy: open .: not a regular file"},
		{"explain FILE request.method", 2, `unexpected argument "request.method": want name=value`},
		{"explain FILE request.methd=GET", 2, "request.method"},
		{"explain FILE response.status=ok", 2, "want a number of three digits"},
		{"replay FILE", 2, "want a policy file and an access log"},
		{"replay FILE a b", 2, "zcat -f LOG LOG"},
		{"replay FILE missing.log", 1, "missing.log: no such file or directory"},
		{"replay FILE - --format $a$b", 2, `--format "$a$b": the variable $b follows another without a text between them`},
	} {
		args := strings.Fields(strings.ReplaceAll("policy "+test.args, "FILE", file))
		got := sluiceRun(nil, args...)
		shown := got.stderr
		if test.want == 0 {
			shown = got.stdout
		}
		if got.status != test.want || !strings.Contains(shown, test.says) {
			t.Errorf("%s: status %d, want %d; want %q in\n%s%s", test.args, got.status, test.want, test.says, got.stdout,
				got.stderr)
		}
	}
}

func TestPolicyExplain(t *testing.T) {
	file := inFile(t, "limits.yaml", policyFile)
	var all strings.Builder
	for _, args := range []string{
		"request.method=POST request.path=/code request.ip=192.0.2.7 response.status=500",
		"request.method=POST request.path=/code request.ip=192.0.2.7 response.status=200",
		"request.path=/login request.ip=192.0.2.7",
		"request.path=/api/x user.key=k1 user.plan=free",
		"request.path=/api/x user.key=k1 user.plan=none",
		"user.key=k1",
	} {
		got := sluiceRun(nil, append([]string{"policy", "explain", file}, strings.Fields(args)...)...)
		if got.status != 0 || got.stderr != "" {
			t.Errorf("%s: %+v", args, got)
		}
		fmt.Fprintf(&all, "%s\n\n%s\n", args, got.stdout)
	}
	golden(t, "policy_explain", all.String())
}

// TestPolicyManyMistakes wants the first mistakes of many, and none that would clear the screen.
func TestPolicyManyMistakes(t *testing.T) {
	file := inFile(t, "limits.yaml", "limits:\n  \"\\e[2J\": 3\n"+strings.Repeat("  a: 3\n", 4000))
	got := sluiceRun(nil, "policy", "check", file)
	if n := strings.Count(got.stderr, "\n"); got.status != 1 || n != 21 || strings.Contains(got.stderr, "\x1b") {
		t.Errorf("status %d, %d lines:\n%.2000q", got.status, n, got.stderr)
	}
}

// TestPolicyOverrides wants the rates of an override wherever those of the limit are, until it ends: in a replay, by
// the clock of the log.
func TestPolicyOverrides(t *testing.T) {
	file := inFile(t, "limits.yaml", "limits:\n  a:\n    by: ip(request.ip, 64)\n    rates: 2/1m\n    overrides:\n"+
		"      - {subject: '2001:db8::7', rates: 4/1m, until: 2999-01-02T00:00:00Z, reason: he called}\n"+
		"      - {subject: 192.0.2.7, rates: 1/1m, until: 2026-03-02T00:30:00+01:00}\n")
	wantSaid(t, sluiceRun(nil, "policy", "check", file), exitDone,
		"  overrides  2001:db8::/64: 4/1m until 2999-01-02 00:00:00 UTC (he called)\n"+
			"             192.0.2.7: 1/1m until 2026-03-01 23:30:00 UTC: it has ended, and can be removed\n")
	for ip, want := range map[string]string{
		"2001:db8::9": "limit      4/1m until 2999-01-02 00:00:00 UTC \\(he called\\), an override\n(.|\n)* granted, 3 re",
		"192.0.2.7":   "limit      2/1m\n(.|\n)* granted, 1 remaining",
	} {
		wantText(t, sluiceRun(nil, "policy", "explain", file, "request.ip="+ip), exitDone, want)
	}
	var log strings.Builder
	for _, at := range []string{"23:20", "23:40"} {
		for _, ip := range []string{"192.0.2.7", "192.0.2.8", "2001:db8::8"} {
			log.WriteString(strings.Repeat(ip+" - - [01/Mar/2026:"+at+":00 +0000] \"GET / HTTP/1.1\" 200 1\n", 5))
		}
	}
	path := inFile(t, "a.log", log.String())
	for args, want := range map[string]string{
		"":              `a +30 +15 +15 .* 15 by overrides\n(.|\n)*10 +2 .*2001:db8::/64\n`,
		"--rate a=5/1m": `a +30 +24 +6 .*by overrides\n`,
	} {
		line := append([]string{"policy", "replay", file, path}, strings.Fields(args)...)
		wantText(t, sluiceRun(nil, line...), exitDone, want)
	}
}

// TestPolicyExplainProxies wants the client's address from X-Forwarded-For behind the file's proxies, and only there.
func TestPolicyExplainProxies(t *testing.T) {
	file := inFile(t, "limits.yaml",
		"proxies: [10.0.0.0/8, unix]\nlimits: {a: {by: request.ip, rates: 3/1m, empty: skip}}")
	const found = "request.ip is found to be \"192.0.2.7\"\n\na matches\n"
	for _, test := range []struct{ args, want string }{
		{"request.ip=10.0.0.1 request.header.x-forwarded-for=8.8.8.8,192.0.2.7", found},
		{"request.header.x-forwarded-for=192.0.2.7,10.0.0.1 request.ip=10.0.0.2", found},
		{"request.header.x-forwarded-for=192.0.2.7", found},
		{"request.ip=10.0.0.1 request.header.x-forwarded-for=nonsense", "request.ip is found to be \"\"\n\na does not match"},
		{"request.ip=192.0.2.9 request.header.x-forwarded-for=192.0.2.7", "a matches\n  key        sluice:a:{192.0.2.9}:"},
	} {
		got := sluiceRun(nil, append([]string{"policy", "explain", file}, strings.Fields(test.args)...)...)
		if got.status != 0 || !strings.HasPrefix(got.stdout, test.want) {
			t.Errorf("%s: want %q in\n%s%s", test.args, test.want, got.stdout, got.stderr)
		}
	}
}

// TestPolicyExplainError wants a policy that cannot be applied to be named.
func TestPolicyExplainError(t *testing.T) {
	got := sluiceRun(nil, "policy", "explain", inFile(t, "limits.yaml", policyFile), "request.path=/api/x")
	if got.status != 1 || !strings.Contains(got.stdout, "api cannot be applied\n  error      by: the key is empty") ||
		!strings.HasSuffix(got.stdout, "\nThere is no decision: the call is refused.\n") || got.stderr != "" {
		t.Errorf("%+v", got)
	}
}

// hostile is a user name that would clear the screen.
const hostile = "\x1b[2J\u202eeve"

// replayLog is a log with a busy key, one that is denied more often than it is busy, and lines that cannot be read.
func replayLog() string {
	var log strings.Builder
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	at := func(d time.Duration, method, path, ip, user string, status int) {
		user, _ = quoteJSON(user)
		fmt.Fprintf(&log, `{"time_iso8601":%q,"request_method":%q,"request_uri":%q,"remote_addr":%q,"remote_user":%s,`+
			`"user.plan":"free","status":%d}`+"\n", start.Add(d).Format(time.RFC3339), method, path, ip, user, status)
	}
	for i := range 4 * 60 {
		second := time.Duration(i) * 15 * time.Second
		for range i / 60 * 9 {
			at(second, "GET", "/api/list", "192.0.2.1", hostile, 200)
		}
		at(second, "GET", "/api/"+fmt.Sprint(i%7), "192.0.2.1", fmt.Sprint("user", i%12), 200)
		if i%3 == 0 {
			at(second, "POST", "/code", "2001:db8::7", "", []int{200, 500}[i%2])
		}
		if i%10 == 0 {
			fmt.Fprintf(&log, "not \x1b[31m a line\n")
			at(second, "GET", "/login", "192.0.2.9", "", 200)
			at(second, "GET", "/api/x", "192.0.2.9", "", 200)
		}
	}
	at(0, "GET", "/other", "192.0.2.9", "", 200)
	return log.String()
}

func quoteJSON(text string) (string, error) {
	quoted, err := json.Marshal(text)
	return string(quoted), err
}

// replayOn runs policy replay on a log.
func replayOn(t *testing.T, log string, args ...string) outcome {
	t.Helper()
	path := inFile(t, "access.log", log)
	got := sluiceRun(nil, append([]string{"policy", "replay", inFile(t, "limits.yaml", policyFile), path}, args...)...)
	got.stdout = strings.ReplaceAll(got.stdout, filepath.Dir(path)+"/", "")
	return got
}

func TestPolicyReplay(t *testing.T) {
	got := replayOn(t, replayLog())
	if got.status != 0 || got.stderr != "" {
		t.Errorf("status %d: %s", got.status, got.stderr)
	}
	golden(t, "policy_replay", got.stdout)
}

// TestPolicyReplayMostDenied has a key that is denied and not among the ten busiest.
func TestPolicyReplayMostDenied(t *testing.T) {
	var log strings.Builder
	for i := range 60 {
		fmt.Fprintf(&log, "192.0.2.%d - - [01/Mar/2026:23:59:%02d +0100] \"GET /login HTTP/1.1\" 200 1\n", i%11, i)
	}
	log.WriteString(strings.Repeat("2001:db8::7 - - [01/Mar/2026:23:59:59 +0100] \"POST /code HTTP/1.1\" 200 1\n", 4))
	wantText(t, replayOn(t, log.String()), exitDone,
		`\n\nDenied most often:\n(.|\n)*\nsend-code +4 +1 +25.00 % +2001:db8::7\n$`)
}

// TestPolicyReplayRate tries other rates than those of the file.
func TestPolicyReplayRate(t *testing.T) {
	for args, want := range map[string]string{
		"--rate api:free=30/1m":                     `\napi +3480 +1590 +1890 `,
		"--rate api:free=1000/1m --rate login=0/1m": `\nlogin +24 +0 +24 (.|\n)*\napi +3480 +3480 +0 `,
		"--rate send-code=1000/1m,1000/24h":         `\nsend-code +80 +80 +0 `,
	} {
		wantText(t, replayOn(t, replayLog(), strings.Fields(args)...), exitDone, want)
	}
	for args, want := range map[string]string{
		"--rate apo=1/1m": "want one of send-code, login, api", "--rate api=1/1m": "want one of api:free, api:none",
		"--rate login": "want permits and a window", "--rate login=1/1m,2/1h": "as many rates as the file has: login=5/1m",
		"--rate send-code=5/1m": "send-code=3/1m,20/24h", "--rate login=9/0s": "want permits and a window",
	} {
		wantSaid(t, replayOn(t, "", strings.Fields(args)...), exitUsage, want)
	}
}

func TestPolicyReplayJSON(t *testing.T) {
	got := replayOn(t, replayLog(), "--json")
	var report replay.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.status != 0 {
		t.Fatalf("%v, %+v", err, got)
	}
	if len(report.Policies) != 3 || report.Busiest[0].Subject != hostile || report.Unread != 24 || report.Unknown != 24 ||
		report.Matched != 3584 {
		t.Errorf("%+v", report)
	}
	wantPrintable(t, got, "replay --json")
}

// TestPolicyReplayNothingRead wants a log of which no line can be read to be a failure, and an empty one not.
func TestPolicyReplayNothingRead(t *testing.T) {
	got := replayOn(t, strings.Repeat("what\n", 9))
	if got.status != 1 || !strings.Contains(got.stdout, "9 lines could not be read:\n  line 1: it has no") ||
		!strings.Contains(got.stdout, "  and 4 more\n") || !strings.Contains(got.stderr, "see --format") {
		t.Errorf("%+v", got)
	}
	if got := replayOn(t, ""); got.status != 0 || got.stdout != "access.log: 0 lines\n" {
		t.Errorf("empty: %+v", got)
	}
}

func TestPolicyReplayStandardInput(t *testing.T) {
	var stdout, stderr strings.Builder
	a := app{stdout: &stdout, stderr: &stderr, getenv: getenv(nil)}
	a.stdin = strings.NewReader("192.0.2.7|1772359200.5|GET|/login\n")
	status := a.run(background, []string{"policy", "replay", inFile(t, "limits.yaml", policyFile), "-", "--format",
		"$remote_addr|$msec|$request_method|$request_uri"})
	want := "-: 1 line, 2026-03-01 10:00:00 to 2026-03-01 10:00:00 UTC\n"
	if status != 0 || !strings.HasPrefix(stdout.String(), want) || !strings.Contains(stdout.String(), "192.0.2.7\n") {
		t.Errorf("status %d\n%s%s", status, stdout.String(), stderr.String())
	}
}

// TestPolicyReplayInterrupted wants the report of what was decided.
func TestPolicyReplayInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	cancel()
	got := runUnder(ctx, nil, "policy", "replay", inFile(t, "limits.yaml", policyFile), inFile(t, "a.log", replayLog()))
	if got.status != exitInterrupted || !strings.Contains(got.stdout, "a.log: ") || got.stderr != "interrupted\n" {
		t.Errorf("%+v", got)
	}
}
