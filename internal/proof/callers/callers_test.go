// Package callers runs the callers of docs/clients, as they stand there, with the clients that they are for.
package callers

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// caller is one of the callers, and how its program is made and started.
type caller struct {
	page, block string // the code is in docs/clients/<page>.md, behind a line ```<block>
	client      string // with its version
	file        string // in which the code is saved
	driver      string // the file or folder in drivers that calls it
	build       [][]string
	run         []string // takes the server's address and the scripts' folder
	url         bool     // the address is a URL, else a host and a port
	threads     bool     // its calls do not wait for each other
	preamble    int      // bytes of replies before that of a call is cut
}

var callers = []caller{
	{"java", "java jedis", "Jedis 8.0", "Sluice.java", "java", javaBuild, javaRun, true, true, 0},
	{"java", "java lettuce", "Lettuce 7.7", "Sluice.java", "java", javaBuild, javaRun, true, true, 0},
	{"java", "java spring", "Spring 4.1", "Sluice.java", "java", javaBuild, javaRun, true, false, len("+PONG\r\n") + 1},
	{"lua", "lua", "redis-lua 2.0", "sluice.lua", "lua.lua", nil, []string{"lua5.1", "lua.lua"}, false, false, 0},
	{"php", "php phpredis", "phpredis 5.3", "sluice.php", "php.php", nil, []string{"php", "php.php"}, false, false, 0},
	{"php", "php predis", "Predis 1.1", "sluice.php", "php.php", nil, []string{"php", "php.php"}, false, false, 0},
	{"ruby", "ruby", "redis-rb 4.8", "sluice.rb", "ruby.rb", nil, []string{"ruby", "ruby.rb"}, true, false, 0},
	{"rust", "rust", "redis-rs 1.8", "src/sluice.rs", "rust", [][]string{{"cargo", "build", "--quiet", "--locked"}},
		[]string{"./target/debug/callers"}, true, false, 0},
}

var (
	javaBuild = [][]string{
		{"mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"},
		{"javac", "-cp", "lib/*", "--release", "17", "Sluice.java", "Driver.java", "Login.java"},
	}
	javaRun = []string{"java", "-cp", "lib/*:.", "Driver"}
)

// cure is for a missing interpreter, compiler or client.
const cure = "cure: on Debian .ci/run installs the languages and clients; read there what they are"

const vectors = "../../../scripttest/vectors"

// TestServerCallers holds each caller against the vectors, a lost reply, a frozen server and its own limit under load.
// It prints a row for each.
func TestServerCallers(t *testing.T) {
	for _, c := range callers {
		t.Run(c.block, func(t *testing.T) {
			folder := c.make(t)
			steps := c.vectors(t, folder)
			c.lostReply(t, folder)
			c.frozenServer(t, folder)
			granted, asked := c.audit(t, folder)
			if !t.Failed() {
				fmt.Printf("%-14s | %-13s | %d vectors | NOSCRIPT, lost reply, frozen server | %d of %d granted\n",
					c.block, c.client, steps, granted, asked)
			}
		})
	}
}

// make builds the program in a folder of its own.
func (c caller) make(t *testing.T) string {
	t.Helper()
	page := read(t, "../../../docs/clients/"+c.page+".md")
	_, code, _ := strings.Cut(page, "```"+c.block+"\n")
	code, _, ok := strings.Cut(code, "```\n")
	if lines := strings.Count(code, "\n"); !ok || lines > 50 {
		t.Fatalf("%s.md: %d lines of %s, want up to 50", c.page, lines, c.block)
	}
	folder := t.TempDir()
	driver := filepath.Join("drivers", c.driver)
	if info, err := os.Stat(driver); err == nil && info.IsDir() {
		must(t, os.CopyFS(folder, os.DirFS(driver)))
	} else {
		must(t, os.WriteFile(filepath.Join(folder, c.driver), []byte(read(t, driver)), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(folder, c.file), []byte(code), 0o644))
	if _, login, found := strings.Cut(page, "```java login\n"); found {
		login, _, _ = strings.Cut(login, "```\n")
		must(t, os.WriteFile(filepath.Join(folder, "Login.java"), []byte(login), 0o644))
	}
	for _, args := range c.build {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s%s", args, err, out, cure)
		}
	}
	return folder
}

// program is a caller that runs. It reads a call a line, and writes a reply a line.
type program struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	process *os.Process
}

func (c caller) start(t *testing.T, folder, addr, scripts string) program {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	to := []string{host, port}
	if c.url {
		to = []string{"redis://" + addr}
	}
	absolute, err := filepath.Abs(scripts)
	must(t, err)
	args := slices.Concat(c.run, to, []string{absolute})
	cmd := exec.Command(args[0], args[1:]...)
	var printed strings.Builder
	cmd.Dir, cmd.Stderr = folder, &printed
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, cure)
	}
	t.Cleanup(func() {
		_, _ = cmd.Process.Kill(), cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %.2000s", c.client, &printed)
		}
	})
	return program{t, in, bufio.NewReader(out), cmd.Process}
}

// startWarm starts a program and waits until the server has answered it. A JVM on a busy machine may need more than the
// second that its first call has.
func (c caller) startWarm(t *testing.T, folder, addr, scripts string) program {
	t.Helper()
	p := c.start(t, folder, addr, scripts)
	redistest.Await(t, "the server answers", func() bool {
		_, failed := p.call("list_log_v1", []string{key}, []string{"0", "0", "0", "0"})
		return strings.HasPrefix(failed, "BADARG")
	})
	return p
}

// call returns the reply, or the error text.
func (p program) call(name string, keys, args []string) (reply []int64, failed string) {
	p.t.Helper()
	p.send(name, keys, args)
	return p.receive()
}

// send writes a call.
func (p program) send(name string, keys, args []string) {
	p.t.Helper()
	words := []string{name, strconv.Itoa(len(keys))}
	for _, word := range slices.Concat(keys, args) {
		words = append(words, "-"+hex.EncodeToString([]byte(word)))
	}
	_, err := fmt.Fprintln(p.in, strings.Join(words, " "))
	must(p.t, err)
}

// receive returns the next reply, or the error text.
func (p program) receive() (reply []int64, failed string) {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	must(p.t, err)
	if failed, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
		return nil, failed
	}
	for word := range strings.FieldsSeq(line) {
		value, err := strconv.ParseInt(word, 10, 64)
		must(p.t, err)
		reply = append(reply, value)
	}
	return reply, ""
}

type vectorFile struct {
	Script    string
	Timelines []struct {
		Name  string
		Steps []vectorStep
	}
}

type vectorStep struct {
	At            int64
	Command       []string
	Script, Error string
	Keys, Args    []string
	Reply         []int64
	State         map[string]any
}

// vectors runs all steps, beside a server on which go-redis runs them: the replies are those of the vectors, and both
// servers hold the same. It returns how many steps there were.
func (c caller) vectors(t *testing.T, folder string) (steps int) {
	t.Helper()
	files, err := filepath.Glob(vectors + "/*.json")
	must(t, err)
	own, other := redistest.Start(t), redistest.Start(t)
	beside := pair{t, own.Client(t), other.Client(t), c.startWarm(t, folder, own.Addr, vectors+"/testclock")}
	for _, path := range files {
		var file vectorFile
		must(t, json.Unmarshal([]byte(read(t, path)), &file))
		for _, timeline := range file.Timelines {
			beside.do("FLUSHALL")
			beside.do("SCRIPT", "FLUSH") // so that it loads scripts as it goes
			keys := map[string]bool{}
			for i, step := range timeline.Steps {
				if wrong := beside.play(file.Script, step, keys); wrong != "" {
					t.Errorf("%s, %s, step %d: %s", file.Script, timeline.Name, i+1, wrong)
				}
				steps++
			}
		}
	}
	return steps
}

// pair is the server that the program calls, and one that go-redis calls.
type pair struct {
	t           *testing.T
	own, beside *redis.Client
	program     program
}

func (p pair) do(words ...string) {
	p.t.Helper()
	for _, client := range []*redis.Client{p.own, p.beside} {
		if err := client.Do(p.t.Context(), anys(words)...).Err(); err != nil && err != redis.Nil {
			p.t.Fatal(words, err)
		}
	}
}

// play runs a step on both servers and says what is wrong.
func (p pair) play(script string, step vectorStep, keys map[string]bool) string {
	p.t.Helper()
	at := []string{strconv.FormatInt(step.At/1e6, 10), strconv.FormatInt(step.At%1e6, 10)}
	p.do("HSET", "sluice:test:clock", "s", at[0], "us", at[1])
	if step.Command != nil {
		p.do(bytes(step.Command)...)
		return ""
	}
	if step.Script != "" {
		script = step.Script
	}
	names, args := bytes(step.Keys), bytes(step.Args)
	source := read(p.t, vectors+"/testclock/"+script+".lua")
	_ = p.beside.Eval(p.t.Context(), source, names, anys(args)...).Err()
	reply, failed := p.program.call(script, names, args)
	if !slices.Equal(reply, step.Reply) || failed != step.Error {
		return fmt.Sprintf("got %v %q, want %v %q", reply, failed, step.Reply, step.Error)
	}
	for _, key := range names {
		keys[key] = true
	}
	for key := range keys {
		got, want := p.own.Dump(p.t.Context(), key).Val(), p.beside.Dump(p.t.Context(), key).Val()
		if got != want {
			return fmt.Sprintf("%s holds %q, want %q", key, got, want)
		}
	}
	return ""
}

const key = "sluice:callers:{x}:ll1"

// lostReply loses the reply of one call, and only that: it is an error, and the call is charged once.
func (c caller) lostReply(t *testing.T, folder string) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	p := c.startWarm(t, folder, proxy.Addr, "../../../scripts")
	args := []string{"100", "60000000", "1", "0"}
	if reply, failed := p.call("list_log_v1", []string{key}, args); len(reply) != 5 || reply[0] != 1 {
		t.Fatalf("the first call: %v %s", reply, failed)
	}
	proxy.CutReplies(c.preamble)
	look, ended := server.Client(t), make(chan struct{})
	go func() {
		defer close(ended)
		if reply, failed := p.call("list_log_v1", []string{key}, args); failed == "" {
			t.Errorf("a lost reply: %v, want an error", reply)
		}
	}()
	redistest.Await(t, "the call is charged and the connection cut", func() bool {
		return look.LLen(t.Context(), key).Val() >= 2 && proxy.Counts().Open == 0
	})
	proxy.Pass()
	<-ended
	if charged := look.LLen(t.Context(), key).Val(); charged != 2 {
		t.Errorf("a lost reply: %d permits charged in all, want 2", charged)
	}
}

// frozenServer has a server that does not answer: the calls end. Where there are threads it does not answer to the
// first connection either, and 40 ask at once.
func (c caller) frozenServer(t *testing.T, folder string) {
	t.Helper()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	if c.threads {
		proxy.Swallow()
	}
	p := c.start(t, folder, proxy.Addr, "../../../scripts")
	args := []string{"100", "60000000", "1", "0"}
	ask := func(calls int) {
		hangs := time.AfterFunc(20*time.Second, func() {
			t.Error("a call to a frozen server does not end")
			_ = p.process.Kill()
		})
		defer hangs.Stop()
		for range calls {
			p.send("list_log_v1", []string{key}, args)
		}
		for range calls {
			if reply, failed := p.receive(); failed == "" {
				t.Errorf("a frozen server: %v, want an error", reply)
			}
		}
	}
	calls := 1
	if c.threads {
		calls = 40
		ask(calls)
		proxy.Pass()
	}
	redistest.Await(t, "the server is asked", func() bool {
		_, failed := p.call("list_log_v1", []string{key}, args)
		return failed == ""
	})
	proxy.Swallow()
	ask(calls)
}

// audit has 8 programs ask for 50 permits each of a limit of 100: no more are granted.
func (c caller) audit(t *testing.T, folder string) (granted, asked int64) {
	t.Helper()
	server := redistest.Start(t)
	counts := make([]int64, 8)
	var work sync.WaitGroup
	for i := range counts {
		p, args := c.startWarm(t, folder, server.Addr, "../../../scripts"), []string{"100", "3600000000", "1", "0"}
		work.Go(func() {
			for range 50 {
				reply, failed := p.call("list_log_v1", []string{key}, args)
				if failed != "" {
					t.Error(failed)
					return
				}
				counts[i] += reply[0]
			}
		})
	}
	work.Wait()
	for _, count := range counts {
		granted += count
	}
	if granted != 100 {
		t.Errorf("%d granted, want the limit of 100", granted)
	}
	return granted, int64(len(counts) * 50)
}

// bytes has a byte for each character of the vectors.
func bytes(texts []string) []string {
	words := make([]string, len(texts))
	for i, text := range texts {
		for _, r := range text {
			words[i] += string([]byte{byte(r)})
		}
	}
	return words
}

func anys(words []string) []any {
	some := make([]any, len(words))
	for i, word := range words {
		some[i] = word
	}
	return some
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
