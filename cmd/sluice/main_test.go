package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9/logging"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

var update = flag.Bool("update", false, "write the goldens in testdata")

// outcome is what a run of the program left behind.
type outcome struct {
	status         int
	stdout, stderr string
}

// sluiceRun runs the program with an environment of name=value pairs.
func sluiceRun(env []string, args ...string) outcome {
	return runUnder(background, env, args...)
}

// runUnder is sluiceRun with a context that may end.
func runUnder(ctx context.Context, env []string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	a := app{stdout: &stdout, stderr: &stderr, getenv: getenv(env)}
	status := a.run(ctx, args)
	return outcome{status, stdout.String(), stderr.String()}
}

// runLine runs the program with a command line whose arguments have no spaces.
func runLine(env []string, line string) outcome { return sluiceRun(env, strings.Fields(line)...) }

func getenv(env []string) func(string) string {
	return func(name string) string {
		for _, pair := range env {
			if value, found := strings.CutPrefix(pair, name+"="); found {
				return value
			}
		}
		return ""
	}
}

func TestMain(m *testing.M) {
	logging.Disable()
	m.Run()
}

func TestExitStatus(t *testing.T) {
	const noServer = "redis://127.0.0.1:1"
	sums, err := os.ReadFile("../../scripts/SHA1SUMS")
	must(t, err)
	tests := []struct {
		args string
		want int
		says string // on stdout for 0, else on stderr
	}{
		{"", 2, "usage: sluice <command>"},
		{"help", 0, "usage: sluice <command>"},
		{"--help", 0, "usage: sluice <command>"},
		{"help top", 0, "--share"},
		{"help nothing", 2, `there is no command "nothing"`},
		{"help --x", 0, "usage: sluice help"},
		{"nothing", 2, `there is no command "nothing"`},
		{"version", 0, string(sums)},
		{"--version", 0, string(sums)},
		{"version now", 2, `unexpected argument "now"`},
		{"list", 0, "gcra"},
		{"list --help", 0, "usage: sluice list"},
		{"list -x", 2, "there is no flag --x"},
		{"list leaky_bucket", 2, "gcra_v1, list_log"},
		{"load --redis " + noServer, 1, "cure: start a server there"},
		{"load nothing", 2, `there is no script "nothing"`},
		{"load --redis a --cluster b", 2, "want one of --redis, --cluster and --sentinel"},
		{"verify --cluster 127.0.0.1:1", 1, "asking 127.0.0.1:1 for the nodes"},
		{"verify --sentinel 127.0.0.1:1", 2, "want name@host:port"},
		{"verify --sentinel main@127.0.0.1:1", 1, "asking 127.0.0.1:1 for the nodes"},
		{"acl --help", 0, "--client"},
		{"acl --format yaml", 2, "want commands or aclfile"},
		{"acl --prefix a:*", 2, "want letters, digits"},
		{"acl --name it's", 2, "want letters, digits, dot"},
		{"acl leaky_bucket", 2, "gcra_v1, list_log"},
		{"inspect", 2, "want a limiter and a subject"},
		{"reset jobs", 2, "`sluice top --limiter jobs` lists its subjects"},
		{"inspect a:b c", 2, "limiter is"},
		{"inspect a b --limit 3/soon", 2, `invalid value "3/soon" for --limit: want permits and a window, as in 100/1m`},
		{"inspect a b c", 2, `unexpected argument "c"`},
		{"inspect --redis " + noServer + " a b", 1, "cure: start a server there"},
		{"reset --help", 0, "--dry-run"},
		{"reset a", 2, "want a limiter and a subject"},
		{"reset --redis " + noServer + " a b", 1, "cure: start a server there"},
		{"set-rate --help", 0, "token_bucket"},
		{"set-rate a", 2, "want a limiter and a subject: `sluice top --limiter a` lists"},
		{"reset a b c", 2, `unexpected argument "c"`},
		{"set-rate a b", 2, "want a rate, as in 50/1s"},
		{"set-rate a b 50", 2, `the rate is "50": want permits and a window`},
		{"set-rate --redis " + noServer + " a b 3/1s", 1, "cure: start a server there"},
		{"top --share 0", 2, "want 1 to 100"},
		{"top --limiter a*", 2, "limiter"},
		{"list zset_log_v1.lua", 0, sluice.ZSetLogV1SHA1 + "  zset_log_v1\n"},
		{"list zset_log_v2", 2, "there is no script"},
		{"top --n many", 2, "want a whole number"},
		{"top --redis " + noServer, 1, "cure: start a server there"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			got := runLine(nil, test.args)
			text := got.stderr
			if test.want == exitDone {
				text = got.stdout
			}
			if got.status != test.want || !strings.Contains(text, test.says) {
				t.Errorf("status %d, want %d\nstdout: %s\nstderr: %s\nwant in it: %s",
					got.status, test.want, got.stdout, got.stderr, test.says)
			}
			if test.want == exitUsage && test.args != "" && !strings.Contains(got.stderr, "cure: see sluice help") {
				t.Errorf("no cure:\n%s", got.stderr)
			}
		})
	}
}

func TestServerInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got := runUnder(ctx, nil, "top", "--redis", redistest.Start(t).Addr)
	if got.status != exitInterrupted || got.stderr != "interrupted\n" {
		t.Errorf("%+v", got)
	}
}

func TestUsageFits(t *testing.T) {
	texts := map[string]string{"overview": overview()}
	for _, c := range commands() {
		texts[c.name] = usageOf(c.name)
		if !strings.HasPrefix(texts[c.name], "usage: sluice "+c.name) {
			t.Errorf("%s: the usage text begins with %.30q", c.name, texts[c.name])
		}
	}
	for name, text := range texts {
		wantNarrow(t, name, text)
	}
}

// wantNarrow fails if a line needs more than 80 columns.
func wantNarrow(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%s: %d columns: %s", name, n, line)
		}
	}
}

// TestServerSlash has a limiter of a gRPC method's name: every command takes it, and the users of acl have their rights
// to its keys.
func TestServerSlash(t *testing.T) {
	const name = "orders.v1.Orders/Create"
	rdb, env := started(t)
	limits := loader.New(rdb)
	granted := func() {
		t.Helper()
		d, err := limits.ListLog(name, loader.PerMinute(3)).Allow(background, "ada")
		must(t, err)
		b, err := limits.TokenBucket(name, loader.PerMinute(3)).Allow(background, "ada")
		must(t, err)
		if !d.Granted || !b.Granted {
			t.Errorf("%+v %+v, want grants", d, b)
		}
	}
	granted()
	const log = `sluice:orders\.v1\.Orders/Create:\{ada\}:ll1`
	wantText(t, sluiceRun(env, "inspect", name, "ada"), exitDone, log, `limiter +orders\.v1\.Orders/Create\n`)
	wantText(t, sluiceRun(env, "inspect", "sluice:"+name+":{ada}:ll1", "--limit=3/1m"), exitDone,
		`limiter +orders\.v1\.Orders/Create\n`)
	wantText(t, sluiceRun(env, "top", "--limiter", name), exitDone, `orders\.v1\.Orders/Create +ada\n`)
	wantText(t, sluiceRun(env, "top"), exitDone, `orders\.v1\.Orders/Create +ada\n`)
	wantText(t, sluiceRun(env, "set-rate", name, "ada", "9/1m"), exitDone, "rate")
	wantText(t, sluiceRun(env, "reset", name, "ada"), exitDone, "removed   "+log)
	wantText(t, runLine(env, "top --prefix a/b"), exitUsage, `prefix is "a/b": want letters`)
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// golden compares with testdata/<name>.golden, and wants no line wider than a terminal.
func golden(t *testing.T, name, got string) {
	t.Helper()
	wantNarrow(t, name, escapes.ReplaceAllString(got, ""))
	file := filepath.Join("testdata", name+".golden")
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test ./cmd/sluice -update writes it):\n%s", file, diff)
	}
}
