// Package callers tries the callers of docs/clients, as they stand there, and our packages for Python and Node, with
// sluice try-caller.
package callers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
)

// caller is a caller, and how its program is made and started.
type caller struct {
	page, block string // the code is in docs/clients/<page>.md, behind a line ```<block>; no page: it is a package
	client      string // with its version
	file        string // in which the code is saved
	driver      string // the file or folder in drivers that calls it
	build       [][]string
	run         []string
	flags       []string // of sluice try-caller
	edits       []string // of the code: old, new, ..; the page has each new text
}

var (
	alone     = []string{"--vectors", "../../../scripttest/vectors"}
	processes = append([]string{"--processes"}, alone...) // it takes one call at a time
	cluster   = []string{"--in-cluster"}
	javaBuild = [][]string{
		{"mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"},
		{"javac", "-cp", "lib/*", "--release", "17", "Sluice.java", "Driver.java", "Login.java"},
	}
	// python and node install our packages, ROOT is the repository.
	python = [][]string{{"python3", "-m", "venv", "venv"}, {"venv/bin/pip", "install", "-q", "redis==8.1.0",
		"ROOT/clients/python"}}
	node = [][]string{{"sh", "-c", "npm install --no-audit --no-fund --silent redis@6.3.1 ioredis@6.0.0 " +
		"\"$(npm pack --silent ROOT/clients/node)\""}}
	jedisCluster = []string{
		"private final RedisClient redis", "private final RedisClusterClient redis",
		"RedisClient.builder().hostAndPort(server)", "RedisClusterClient.builder().nodes(Set.of(server)).maxAttempts(1)",
	}
	javaRun = []string{"java", "-cp", "DIR/lib/*:DIR", "Driver"}
)

var callers = []caller{
	{"java", "java jedis", "Jedis 8.0", "Sluice.java", "java", javaBuild, javaRun, alone, nil},
	{"java", "java jedis", "Jedis 8.0 in a cluster", "Sluice.java", "java", javaBuild, javaRun, cluster, jedisCluster},
	{"java", "java lettuce", "Lettuce 7.7", "Sluice.java", "java", javaBuild, javaRun, alone, nil},
	{"java", "java spring", "Spring 4.1", "Sluice.java", "java", javaBuild, javaRun, alone, nil},
	{"lua", "lua", "redis-lua 2.0", "sluice.lua", "lua.lua", nil, []string{"lua5.1", "DIR/lua.lua"}, processes, nil},
	{"php", "php phpredis", "phpredis 5.3", "sluice.php", "php.php", nil, []string{"php", "DIR/php.php"}, processes, nil},
	{"php", "php predis", "Predis 1.1", "sluice.php", "php.php", nil, []string{"php", "DIR/php.php"}, processes, nil},
	{"ruby", "ruby", "redis-rb 4.8", "sluice.rb", "ruby.rb", nil, []string{"ruby", "DIR/ruby.rb"}, processes, nil},
	{"rust", "rust", "redis-rs 1.8", "src/sluice.rs", "rust", [][]string{{"cargo", "build", "--quiet", "--locked"}},
		[]string{"DIR/target/debug/callers"}, processes, nil},
	{"", "python", "sluice-redis, redis-py 8.1", "", "python.py", python,
		[]string{"DIR/venv/bin/python", "DIR/python.py"}, alone, nil},
	{"", "node", "sluice-redis, node-redis 6.3", "", "node.mjs", node, []string{"node", "DIR/node.mjs"}, alone, nil},
	{"", "node", "sluice-redis, ioredis 6.0", "", "node.mjs", node,
		[]string{"env", "CLIENT=ioredis", "node", "DIR/node.mjs"}, alone, nil},
}

// cure is for a missing interpreter, compiler or client.
const cure = "cure: on Debian .ci/run installs the languages and clients; read there what they are"

// failing is a row that fails, as sluice try-caller prints it at the end.
var failing = regexp.MustCompile(`(?m)^FAIL ([^:,]+, [^:]+): .*$`)

// TestServerCallers tries each caller. A row may fail only if the caller's page says so.
func TestServerCallers(t *testing.T) {
	sluice := exampletest.Build(t, ".", "../../../cmd/sluice")
	for _, c := range callers {
		t.Run(c.client, func(t *testing.T) {
			folder, page := c.make(t)
			var run []string
			for _, word := range c.run {
				run = append(run, strings.ReplaceAll(word, "DIR", folder))
			}
			cmd := exec.Command(sluice, slices.Concat([]string{"try-caller"}, c.flags, []string{"--"}, run)...)
			cmd.Env = append(os.Environ(), "LUA_PATH="+folder+"/?.lua;;")
			out, err := cmd.CombinedOutput()
			fmt.Printf("%s, %s\n%s", c.block, c.client, out)
			rows := failing.FindAllStringSubmatch(string(out), -1)
			for _, row := range rows {
				if !strings.Contains(page, "FAIL "+row[1]) {
					t.Errorf("%s, and %s.md does not say so", row[0], c.page)
				}
			}
			if err != nil && len(rows) == 0 {
				t.Errorf("%v\n%s", err, cure)
			}
		})
	}
}

// make builds the program in a folder of its own, and returns the folder and the page.
func (c caller) make(t *testing.T) (folder, page string) {
	t.Helper()
	folder = t.TempDir()
	driver := filepath.Join("drivers", c.driver)
	if info, err := os.Stat(driver); err == nil && info.IsDir() {
		must(t, os.CopyFS(folder, os.DirFS(driver)))
	} else {
		must(t, os.WriteFile(filepath.Join(folder, c.driver), []byte(read(t, driver)), 0o644))
	}
	if c.page != "" {
		page = c.copyCode(t, folder)
	}
	if _, login, found := strings.Cut(page, "```java login\n"); found {
		login, _, _ = strings.Cut(login, "```\n")
		must(t, os.WriteFile(filepath.Join(folder, "Login.java"), []byte(login), 0o644))
	}
	root, err := filepath.Abs("../../..")
	must(t, err)
	for _, args := range c.build {
		cmd := exec.Command(args[0])
		for _, arg := range args[1:] {
			cmd.Args = append(cmd.Args, strings.ReplaceAll(arg, "ROOT", root))
		}
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s%s", args, err, out, cure)
		}
	}
	return folder, page
}

// copyCode copies the caller from its page, which it returns.
func (c caller) copyCode(t *testing.T, folder string) (page string) {
	t.Helper()
	page = read(t, "../../../docs/clients/"+c.page+".md")
	_, code, _ := strings.Cut(page, "```"+c.block+"\n")
	code, _, ok := strings.Cut(code, "```\n")
	if lines := strings.Count(code, "\n"); !ok || lines > 50 {
		t.Fatalf("%s.md: %d lines of %s, want up to 50", c.page, lines, c.block)
	}
	for i := 0; i < len(c.edits); i += 2 {
		if !strings.Contains(code, c.edits[i]) || !strings.Contains(page, "`"+c.edits[i+1]+"`") {
			t.Errorf("%s.md does not say `%s` in place of %s", c.page, c.edits[i+1], c.edits[i])
		}
	}
	code = strings.NewReplacer(c.edits...).Replace(code)
	must(t, os.WriteFile(filepath.Join(folder, c.file), []byte(code), 0o644))
	return page
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
