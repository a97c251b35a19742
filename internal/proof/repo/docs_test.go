package repo_test

import (
	"bytes"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// pages are the Markdown files of the project, from its root.
func pages(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "node_modules", "testdata", "tmp"}, entry.Name()):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			list = append(list, path)
		}
		return nil
	})
	must(t, err)
	if !slices.Contains(list, "../../../README.md") || !slices.Contains(list, "../../../docs/benchmarks.md") {
		t.Fatalf("README.md or docs/benchmarks.md is not among %q", list)
	}
	return list
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnchor    = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// Every link of every page leads to a file that is there, and to a heading that is in it.
func TestDocsLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, link := range linkPattern.FindAllStringSubmatch(readFile(t, page), -1) {
			target, err := url.Parse(link[1])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if target.Scheme != "" {
				continue
			}
			path := page
			if target.Path != "" {
				path = filepath.Join(filepath.Dir(page), target.Path)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which is not there", page, link[1])
			} else if target.Fragment != "" && !slices.Contains(anchors(readFile(t, path)), target.Fragment) {
				t.Errorf("%s links to %s, which has no such heading", page, link[1])
			}
		}
	}
}

// anchors are the names of a page's headings in links.
func anchors(text string) []string {
	var list []string
	for _, heading := range headingPattern.FindAllStringSubmatch(text, -1) {
		words := notInAnchor.ReplaceAllString(strings.ToLower(heading[1]), "")
		list = append(list, strings.ReplaceAll(words, " ", "-"))
	}
	return list
}

var (
	makePattern = regexp.MustCompile("(?m)(?:`|^    )make ([a-z-]+)")
	testPattern = regexp.MustCompile(`go test \./(\S+) -run '?\^?(\w+)`)
)

// Every `make` target and every `go test -run` that a page names is there.
func TestDocsCommands(t *testing.T) {
	makefile := readFile(t, "../../../Makefile")
	targets, tests := 0, 0
	for _, page := range pages(t) {
		text := readFile(t, page)
		for _, found := range makePattern.FindAllStringSubmatch(text, -1) {
			if targets++; !strings.Contains(makefile, "\n"+found[1]+":") {
				t.Errorf("%s names make %s, which is no target", page, found[1])
			}
		}
		for _, found := range testPattern.FindAllStringSubmatch(text, -1) {
			if tests++; !hasTest(t, filepath.Join("../../..", found[1]), found[2]) {
				t.Errorf("%s names go test ./%s -run %s, which runs nothing", page, found[1], found[2])
			}
		}
	}
	if targets < 10 || tests < 8 {
		t.Errorf("found only %d targets and %d tests", targets, tests)
	}
}

// hasTest reports whether a folder has a test whose name contains a word.
func hasTest(t *testing.T, dir, word string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	must(t, err)
	test := regexp.MustCompile(`func Test\w*` + strings.TrimPrefix(word, "Test"))
	return slices.ContainsFunc(files, func(file string) bool { return test.MatchString(readFile(t, file)) })
}

// README is what a newcomer reads in one go, and says what it is for before how it is made.
func TestReadmeIsShort(t *testing.T) {
	readme := readFile(t, "../../../README.md")
	if lines, words := strings.Count(readme, "\n"), len(strings.Fields(readme)); lines > 120 || words > 1100 {
		t.Errorf("README has %d lines and %d words, want 120 and 1100 at most: the rest is for docs/", lines, words)
	}
	before, _, found := strings.Cut(readme, "rate limits")
	if !found || strings.Contains(before, "Lua") {
		t.Error("README speaks of Lua before rate limits")
	}
}

// What README's programs need around them.
const (
	programBegins = `package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

var _, _, _ = fmt.Sprint, slog.Default, time.Now

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
`
	programEnds = `
	fmt.Println(d.Granted, d.Remaining, d.Degraded)
	return err
}
`
)

// What README and docs/serve.md build in a checkout is ignored by git.
func TestBuiltIsIgnored(t *testing.T) {
	built := regexp.MustCompile(`go build -C (cmd/[a-z]+) -o \.\./\.\./([a-z]+)`)
	for page, want := range map[string]int{"README.md": 2, "docs/serve.md": 1} {
		found := built.FindAllStringSubmatch(readFile(t, "../../../"+page), -1)
		for _, command := range found {
			if _, err := os.Stat("../../../" + command[1] + "/main.go"); err != nil ||
				!strings.Contains(readFile(t, "../../../.gitignore"), "\n/"+command[2]+"\n") {
				t.Errorf("%s: %s: %v, or .gitignore does not have it", page, command[0], err)
			}
		}
		if len(found) != want {
			t.Errorf("%s has %q, want %d commands", page, found, want)
		}
	}
}

// What is built is not committed: no file of the repository is larger than a megabyte.
func TestNothingBuiltIsCommitted(t *testing.T) {
	list, err := exec.Command("git", "-C", "../../..", "ls-files", "-z").Output()
	if err != nil || len(list) == 0 {
		t.Fatalf("git ls-files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if info, err := os.Stat("../../../" + name); err == nil && info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes: remove it, and name it in .gitignore", name, info.Size())
		}
	}
}

// The programs of README and docs/failure.md compile, and do what they say: they take one of five (the first then waits
// for another), and without Redis the second grants by its policy.
func TestServerReadmeGo(t *testing.T) {
	goBlock := regexp.MustCompile("(?s)```go\n(.*?)```")
	blocks := slices.Concat(goBlock.FindAllStringSubmatch(readFile(t, "../../../README.md"), -1),
		goBlock.FindAllStringSubmatch(readFile(t, "../../../docs/failure.md"), -1))
	if len(blocks) != 2 {
		t.Fatalf("README and docs/failure.md have %d blocks of Go, want one each", len(blocks))
	}
	server := redistest.Start(t)
	for i, want := range []string{"true 4 false\n", "true 4 false\n"} {
		if got := runProgram(t, blocks[i][1], server.Addr); got != want {
			t.Errorf("block %d: %q, want %q", i+1, got, want)
		}
	}
	if got := runProgram(t, blocks[1][1], "127.0.0.1:1"); !strings.HasSuffix(got, "true 5 true\n") {
		t.Errorf("without Redis: %q, want a grant by the policy", got)
	}
}

// runProgram is what a block of Go prints, with another server in place of README's.
func runProgram(t *testing.T, block, addr string) string {
	t.Helper()
	const shown = "localhost:6379"
	if !strings.Contains(block, shown) {
		t.Fatalf("no %s in:\n%s", shown, block)
	}
	source := filepath.Join(t.TempDir(), "main.go")
	text := programBegins + strings.ReplaceAll(block, shown, addr) + programEnds
	must(t, os.WriteFile(source, []byte(text), 0o600))
	cmd := exec.Command("go", "run", "-ldflags=-w", source)
	cmd.Dir = "../../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go run: %v\n%s%s\n%s", err, out, stderr.String(), text)
	}
	return string(out)
}

// The test that docs/testing-your-handler.md shows passes, and fails where the handler is wrong.
func TestTestingYourHandler(t *testing.T) {
	page := readFile(t, "../../../docs/testing-your-handler.md")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) != 1 {
		t.Fatalf("docs/testing-your-handler.md has %d blocks of Go, want 1", len(blocks))
	}
	run := func(text string) (string, error) {
		source := filepath.Join(t.TempDir(), "limit_test.go")
		must(t, os.WriteFile(source, []byte(text), 0o600))
		cmd := exec.Command("go", "test", source)
		cmd.Dir = "../../.."
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(blocks[0][1]); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	wrong := strings.ReplaceAll(blocks[0][1], "case !d.Granted:", "case false:")
	if out, err := run(wrong); err == nil || !strings.Contains(out, `want 429, "60"`) {
		t.Errorf("with a handler that lets everyone in: %v\n%s", err, out)
	}
}
