// Package callers tries the callers of docs/clients, as they stand there, and clients of Python and Node, with sluice
// try-caller.
package callers

import (
	"cmp"
	"flag"
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

var (
	tries  = flag.Bool("callers", false, "try the callers: needs their languages")
	update = flag.Bool("update", false, "write the table of scripts/README.md")
)

// caller is a caller, and how its program is made and started. In commands DIR is its folder, ROOT the repository.
type caller struct {
	client  string   // its name in the table
	version []string // a command that prints its version
	block   string   // the code is in docs/clients/<first word>.md behind ```<block>; "" if the driver is the caller
	file    string   // in which the code is saved
	driver  string   // what calls it, in drivers: the skeleton of COMMAND
	build   [][]string
	run     []string
	flag    string   // of sluice try-caller
	edits   []string // of the code: old, new, ..; the page has each new text
	cure    string   // what switches off the client's retries, in Markdown
	undo    []string // of the code: old, new, .. without the cure
}

var (
	javaBuild = [][]string{
		{"mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"},
		{"javac", "-cp", "lib/*", "--release", "17", "Sluice.java", "Driver.java", "Login.java"},
	}
	javaRun  = []string{"java", "-cp", "DIR/lib/*:DIR", "Driver"}
	javaUndo = []string{"autoReconnect(false)", "autoReconnect(true)"}

	redisRb = []string{
		`require "redis_client"`, `require "redis"`,
		"RedisClient.config(url: url).new_pool", "Redis.new(url: url, timeout: 1, reconnect_attempts: 0)",
		"call_once_v(evalsha)", "call(*evalsha)",
		"RedisClient::", "Redis::",
	}
	redisRbUndo = []string{", reconnect_attempts: 0", ""}
)

// jar prints the version of a library.
func jar(name string) []string {
	return []string{"sh", "-c", "ls lib | sed -n 's/^" + name + "-\\([0-9.]*[0-9]\\).*jar$/\\1/p'"}
}

// gem prints the version of a library of Ruby.
func gem(want string) []string {
	return []string{"ruby", "-e", "print Gem::Specification.find_by_name(" + want + ").version"}
}

var callers = []caller{
	{client: "Jedis, cluster", version: jar("jedis"), block: "java jedis", file: "Sluice.java", driver: "java",
		build: javaBuild, run: javaRun, flag: "--in-cluster", edits: []string{
			"private final RedisClient redis", "private final RedisClusterClient redis",
			"RedisClient.builder().hostAndPort(server)", "RedisClusterClient.builder().nodes(Set.of(server)).maxAttempts(1)",
		}, cure: "`maxAttempts(1)`", undo: []string{".maxAttempts(1)", ""}},
	{client: "Lettuce, cluster", version: jar("lettuce-core"), block: "java lettuce", file: "Sluice.java", driver: "java",
		build: javaBuild, run: javaRun, flag: "--in-cluster", edits: []string{
			"StatefulRedisConnection<", "StatefulRedisClusterConnection<",
			"RedisClient", "RedisClusterClient",
			"ClientOptions.builder()", "ClusterClientOptions.builder()" +
				".disconnectedBehavior(ClientOptions.DisconnectedBehavior.ACCEPT_COMMANDS)",
			"client.connectAsync(ByteArrayCodec.INSTANCE, at)", "client.refreshPartitionsAsync()" +
				".thenCompose(none -> client.connectAsync(ByteArrayCodec.INSTANCE))",
		}, cure: "`autoReconnect(false)`, and a new connection after an error that is no error reply", undo: javaUndo},
	{client: "Spring Data Redis", version: jar("spring-data-redis"), block: "java spring", file: "Sluice.java",
		driver: "java", build: javaBuild, run: javaRun,
		cure: "Lettuce's `autoReconnect(false)`, and `setValidateConnection(true)`", undo: javaUndo},
	{client: "Lettuce", version: jar("lettuce-core"), block: "java lettuce", file: "Sluice.java", driver: "java",
		build: javaBuild, run: javaRun, cure: "`autoReconnect(false)`, and a new connection when it is closed",
		undo: javaUndo},
	{client: "Jedis", version: jar("jedis"), block: "java jedis", file: "Sluice.java", driver: "java",
		build: javaBuild, run: javaRun},
	{client: "phpredis", version: []string{"php", "-r", "echo phpversion('redis');"}, block: "php phpredis",
		file: "sluice.php", driver: "php.php", run: []string{"php", "DIR/php.php"}, flag: "--processes"},
	{client: "Predis", version: []string{"php", "-r", "require 'sluice.php'; echo Predis\\Client::VERSION;"},
		block: "php predis", file: "sluice.php", driver: "php.php", run: []string{"php", "DIR/php.php"},
		flag: "--processes"},
	{client: "redis-lua", version: []string{"lua5.1", "-e", "io.write(require('redis')._VERSION:match('[0-9.]+'))"},
		block: "lua", file: "sluice.lua", driver: "lua.lua", run: []string{"lua5.1", "DIR/lua.lua"}, flag: "--processes"},
	{client: "ioredis", version: []string{"node", "-p", "require('ioredis/package.json').version"}, driver: "node.mjs",
		build: [][]string{{"npm", "install", "--silent", "--no-audit", "--no-fund", "ioredis@6.0.0"}},
		run:   []string{"node", "DIR/node.mjs"}, cure: "`autoResendUnfulfilledCommands: false`; a cluster also " +
			"`retryDelayOnFailover: 0`, and with `clusterNodeRetryStrategy` both",
		undo: []string{", autoResendUnfulfilledCommands: false", ""}},
	{client: "redis-py", version: []string{"venv/bin/python", "-c", "import redis; print(redis.__version__)"},
		driver: "python.py", build: [][]string{{"python3", "-m", "venv", "venv"},
			{"venv/bin/pip", "install", "-q", "-c", "ROOT/clients/python/tests/lock-newest.txt", "redis"}},
		run: []string{"DIR/venv/bin/python", "DIR/python.py"}, cure: "`redis.Redis(.., retry=Retry(NoBackoff(), 0))`, " +
			"also for `from_url`; `Retry` is in `redis.retry`, `NoBackoff` in `redis.backoff`",
		undo: []string{", retry=Retry(NoBackoff(), 0)", ""}},
	{client: "redis-cluster-client", version: gem("'redis-cluster-client'"), block: "ruby", file: "sluice.rb",
		driver: "ruby.rb", run: []string{"ruby", "DIR/ruby.rb"}, flag: "--in-cluster", edits: []string{
			`require "redis_client"`, `require "redis_cluster_client"; module Once; def call(*); super; ` +
				`rescue RedisClient::ConnectionError; raise RedisClient::Error, "no reply"; end; end`,
			"RedisClient.config(url: url)", "RedisClient.cluster(nodes: url, middlewares: [Once], " +
				"circuit_breaker: { error_threshold: 3, error_timeout: 0.25 })",
		}, cure: "a middleware: [Ruby](../docs/clients/ruby.md)",
		undo: []string{", middlewares: [Once]", ""}},
	{client: "redis-client", version: gem("'redis-client'"), block: "ruby", file: "sluice.rb", driver: "ruby.rb",
		run: []string{"ruby", "DIR/ruby.rb"}},
	{client: "redis-rb", version: gem("'redis'"), block: "ruby", file: "sluice.rb", driver: "ruby.rb",
		run: []string{"ruby", "DIR/ruby.rb"}, flag: "--processes", edits: redisRb,
		cure: "`reconnect_attempts: 0`", undo: redisRbUndo},
	{client: "redis-rb", version: gem("'redis', '< 5'"), block: "ruby", file: "sluice.rb", driver: "ruby.rb",
		run: []string{"ruby", "-e", "gem 'redis', '< 5'; load 'DIR/ruby.rb'"}, flag: "--processes", edits: redisRb,
		cure: "`reconnect_attempts: 0`", undo: redisRbUndo},
	{client: "the crate redis", version: []string{"sed", "-n", `/name = "redis"/{n;s/[^0-9.]//g;p}`, "Cargo.lock"},
		block: "rust", file: "src/sluice.rs", driver: "rust", build: [][]string{{"cargo", "build", "--quiet", "--locked"}},
		run: []string{"DIR/target/debug/callers"}, flag: "--processes"},
}

// TestServerCallers tries each caller. The rows that fail are those of the caller's page. What a lost reply does is
// in a table of scripts/README.md: with the client as it comes, too.
func TestServerCallers(t *testing.T) {
	if !*tries { // not so in CI: test-all leaves this test out, and clients-callers sets the flag
		t.Skip("make clients-callers: needs the languages of docs/clients")
	}
	sluice := exampletest.Build(t, ".", "../../../cmd/sluice")
	rows := make([]string, len(callers))
	t.Run("all", func(t *testing.T) {
		for i, c := range callers {
			t.Run(c.client, func(t *testing.T) {
				t.Parallel()
				rows[i] = c.row(t, sluice)
			})
		}
	})
	before, table, after := cutTable(t)
	switch {
	case *update && !slices.Contains(rows, ""):
		must(t, os.WriteFile(readme, []byte(before+strings.Join(rows, "")+after), 0o644))
	case !*update && strings.Count(table, "\n") != len(callers):
		t.Errorf("%s has rows of other callers:\n%s", readme, table)
	}
}

// TestSkeletons bounds the skeletons of COMMAND.
func TestSkeletons(t *testing.T) {
	for _, pattern := range []string{"*.*", "java/*.java", "rust/src/*.rs"} {
		files, _ := filepath.Glob("drivers/" + pattern)
		for _, path := range files {
			if lines := strings.Count(read(t, path), "\n"); lines > 30 {
				t.Errorf("%s: %d lines, want up to 30", path, lines)
			}
		}
		if len(files) == 0 {
			t.Errorf("no %s", pattern)
		}
	}
}

// row tries a caller and returns its row of the table.
func (c caller) row(t *testing.T, sluice string) string {
	t.Helper()
	for i := 1; i < len(c.edits); i += 2 {
		if !strings.Contains(c.page(t), "`"+c.edits[i]+"`") {
			t.Errorf("the page does not have %s", c.edits[i])
		}
	}
	folder := c.make(t, c.edits)
	flags := []string{"--vectors", "../../../scripttest/vectors"}
	if c.flag == "--in-cluster" {
		flags = nil
	}
	failed := c.try(t, sluice, folder, flags...)
	for _, row := range append(c.failing(t), failed...) {
		late := strings.HasPrefix(row, "ends in time") // a fast machine may be in time
		if !slices.Contains(c.failing(t), row) || !late && !slices.Contains(failed, row) {
			t.Errorf("FAIL %s: in the results, or on the page alone", row)
		}
	}
	charged := "once"
	if c.cure != "" {
		charged = "twice or more"
		failed := c.try(t, sluice, c.make(t, slices.Concat(c.edits, c.undo)), "--only", "replies are lost")
		if !slices.ContainsFunc(failed, func(row string) bool { return strings.HasPrefix(row, "charged once") }) {
			t.Errorf("%s cures nothing: without it FAIL %q", c.cure, failed)
		}
	}
	row := fmt.Sprintf("| %s %s | %s | %s |\n", c.client, c.output(t, folder, c.version), charged, c.cure)
	if !*update && !strings.Contains(read(t, readme), "\n"+row) {
		t.Errorf("%s does not have %scure: make clients-callers UPDATE=-update", readme, row)
	}
	return row
}

// failing returns the rows that fail, as the page says behind the client's name.
func (c caller) failing(t *testing.T) (rows []string) {
	t.Helper()
	_, says, found := strings.Cut(c.page(t), "\n| "+c.client+": FAIL ")
	if says, _, _ = strings.Cut(says, " |"); !found {
		return nil
	}
	return strings.Split(says, "; ")
}

func (c caller) page(t *testing.T) string {
	t.Helper()
	if c.block == "" {
		return ""
	}
	page, _, _ := strings.Cut(c.block, " ")
	return read(t, "../../../docs/clients/"+page+".md")
}

// make builds the program, with edits of its code, in a folder of its own.
func (c caller) make(t *testing.T, edits []string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	driver := filepath.Join("drivers", c.driver)
	if info, err := os.Stat(driver); err == nil && info.IsDir() {
		must(t, os.CopyFS(folder, os.DirFS(driver)))
	} else {
		must(t, os.WriteFile(filepath.Join(folder, c.driver), []byte(read(t, driver)), 0o644))
	}
	for block, file := range map[string]string{c.block: c.file, "java login": "Login.java"} {
		_, code, found := strings.Cut(c.page(t), "```"+block+"\n")
		code, _, _ = strings.Cut(code, "```\n")
		if lines := strings.Count(code, "\n"); lines > 50 || !found && block == c.block && block != "" {
			t.Fatalf("%d lines of %s, want up to 50", lines, block)
		}
		if found {
			must(t, os.WriteFile(filepath.Join(folder, file), []byte(code), 0o644))
		}
	}
	edited := filepath.Join(folder, cmp.Or(c.file, c.driver))
	code := read(t, edited)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(code, edits[i]) {
			t.Errorf("no %q in %s", edits[i], edited)
		}
		code = strings.ReplaceAll(code, edits[i], edits[i+1])
	}
	must(t, os.WriteFile(edited, []byte(code), 0o644))
	for _, args := range c.build {
		c.output(t, folder, args)
	}
	return folder
}

// output runs a command in the folder.
func (c caller) output(t *testing.T, folder string, words []string) string {
	t.Helper()
	words = inFolder(t, folder, words)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", words, err, out, missing)
	}
	return strings.TrimSpace(string(out))
}

// missing is said where an interpreter, compiler or client may be missing.
const missing = "cure: on Debian .ci/run installs the languages and clients; read there what they are"

func inFolder(t *testing.T, folder string, words []string) (all []string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	must(t, err)
	for _, word := range words {
		all = append(all, strings.NewReplacer("DIR", folder, "ROOT", root).Replace(word))
	}
	return all
}

// failing is a row that fails, as sluice try-caller prints it at the end.
var failing = regexp.MustCompile(`(?m)^FAIL (\S[^:]*): .*$`)

// try returns the rows that fail.
func (c caller) try(t *testing.T, sluice, folder string, flags ...string) (rows []string) {
	t.Helper()
	if c.flag != "" {
		flags = append(flags, c.flag)
	}
	run := slices.Concat([]string{"try-caller", "--within", "10s"}, flags, []string{"--"}, inFolder(t, folder, c.run))
	cmd := exec.Command(sluice, run...)
	cmd.Env = append(os.Environ(), "LUA_PATH="+folder+"/?.lua;;")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	t.Logf("%s %s\n%s", c.client, strings.Join(flags, " "), out)
	for _, row := range failing.FindAllStringSubmatch(string(out), -1) {
		rows = append(rows, row[1])
	}
	if err != nil && len(rows) == 0 {
		t.Errorf("%v\n%s%s", err, stderr.String(), missing)
	}
	slices.Sort(rows)
	return rows
}

const (
	readme = "../../../scripts/README.md"
	head   = "| client | a lost reply is charged | so that it is charged once |\n|---|---|---|\n"
)

// cutTable returns the rows of the table, and what is before and after.
func cutTable(t *testing.T) (before, table, after string) {
	t.Helper()
	before, table, found := strings.Cut(read(t, readme), head)
	if !found {
		t.Fatalf("%s has no table %q", readme, head)
	}
	table, after, _ = strings.Cut(table, "\n\n")
	return before + head, table + "\n", "\n" + after
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
