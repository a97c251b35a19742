package lua51

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// TestServerCorpus runs every fragment of corpus and of faithful here and on a real Redis 7.0 and compares what they
// reply: types, texts of errors and all.
func TestServerCorpus(t *testing.T) {
	server := dialRedis(t, redis70(t).Addr)
	emulated := Start(t)
	for _, group := range slices.Concat(corpus, drawn, faithful) {
		t.Run(group.name, func(t *testing.T) {
			for _, source := range group.fragments {
				compareWith(t, server, emulated, source)
			}
		})
	}
}

// unnamed leaves out the variable that Lua 5.1 names in the text of an error: here errors name none.
func unnamed(reply any) any {
	switch v := reply.(type) {
	case string:
		return variable.ReplaceAllString(v, "$1$2")
	case ErrorReply:
		return ErrorReply(variable.ReplaceAllString(string(v), "$1$2"))
	case []any:
		for i := range v {
			v[i] = unnamed(v[i])
		}
	}
	return reply
}

var variable = regexp.MustCompile(`(?:local|global|field|upvalue|method) '[^']*' \((a \w+ value)\)|(bad argument #\d+ to )'[^']*'`)

// compareWith evaluates a fragment on both servers, both empty.
func compareWith(t *testing.T, server *wire, emulated *Redis, source string) {
	t.Helper()
	server.do(t, "FLUSHALL")
	emulated.FlushAll()
	want := server.eval(t, source)
	if diff := cmp.Diff(unnamed(want), unnamed(evaluate(t, emulated, source))); diff != "" {
		t.Errorf("%s\n(-redis +lua51)\n%s", source, diff)
	}
}

// TestServerCommandTable holds commands.txt against the server's own COMMAND.
func TestServerCommandTable(t *testing.T) {
	server := dialRedis(t, redis70(t).Addr)
	listed := map[string]bool{}
	for _, entry := range server.do(t, "COMMAND").([]any) {
		checkCommand(t, entry.([]any), listed)
	}
	for name := range commandTable() {
		if !listed[name] {
			t.Errorf("commands.txt has %s, the server has not", name)
		}
	}
}

func checkCommand(t *testing.T, entry []any, listed map[string]bool) {
	flags := fmt.Sprint(entry[2])
	name := entry[0].(string)
	listed[name] = true
	want := spec{
		name:     name,
		arity:    int(entry[1].(int64)),
		write:    strings.Contains(flags, "write"),
		noScript: strings.Contains(flags, "noscript"),
	}
	if got := commandTable()[name]; got != want {
		t.Errorf("commands.txt: %+v, the server: %+v", got, want)
	}
	for _, sub := range entry[9].([]any) {
		checkCommand(t, sub.([]any), listed)
	}
}

// redis70 starts the first Redis 7.0 there is: this package words its errors as that version does. Another version is
// no reason to fail where that is what the platform has, except in CI, which has 7.0.
func redis70(t *testing.T) *redistest.Server {
	t.Helper()
	var found []string
	for _, binary := range append(redistest.Servers(t), "redis-server") {
		version, err := exec.Command(binary, "--version").Output()
		if err == nil && strings.Contains(string(version), "v=7.0.") {
			return redistest.StartBinary(t, binary)
		}
		found = append(found, strings.TrimSpace(string(version)))
	}
	message := fmt.Sprintf("no Redis 7.0 among %q: add one to %s", found, redistest.Environment)
	if os.Getenv("CI") != "" {
		t.Fatal(message)
	}
	t.Skip(message)
	return nil
}

// evaluate is EVAL on the emulated server, with the same keys and arguments as eval below.
func evaluate(t *testing.T, r *Redis, source string) any {
	script, err := Compile("fragment", source)
	if reply, ok := err.(ErrorReply); ok {
		return reply
	}
	must(t, err)
	result := script.Run(r, []string{"k1", "k2"}, []string{"a", "10", "1e3"})
	if _, isReply := result.Err.(ErrorReply); !isReply && result.Err != nil {
		t.Errorf("%s: %v", source, result.Err)
	}
	if result.Err != nil {
		return result.Err
	}
	return result.Reply
}

// wire is a connection to a real server that keeps the types of replies apart.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialRedis(t *testing.T, addr string) *wire {
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{conn: conn, in: bufio.NewReader(conn)}
}

func (w *wire) eval(t *testing.T, source string) any {
	return w.do(t, "EVAL", source, "2", "k1", "k2", "a", "10", "1e3")
}

func (w *wire) do(t *testing.T, words ...string) any {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(word), word)
	}
	_, err := io.WriteString(w.conn, out.String())
	must(t, err)
	reply, err := readReply(w.in)
	if err != nil {
		t.Fatalf("%.200q: %v", words, err)
	}
	return reply
}
