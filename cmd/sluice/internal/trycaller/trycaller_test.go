package trycaller

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// TestMain is COMMAND where a test says so: a caller that is right, or wrong in one way.
func TestMain(m *testing.M) {
	if fault := os.Getenv("TRY_CALLER_FAULT"); fault != "" {
		serve(fault)
		return
	}
	logging.Disable()
	os.Exit(m.Run())
}

// caller calls scripts over a connection a call, or over one that stays.
type caller struct {
	fault    string
	addrs    []string
	mu       sync.Mutex
	conn     net.Conn
	failures atomic.Int64
}

func serve(fault string) {
	at := strings.TrimPrefix(os.Getenv("SLUICE_REDIS"), "redis://") + os.Getenv("SLUICE_CLUSTER")
	c := &caller{fault: fault, addrs: strings.Split(at, ",")}
	if fault == "knows one node" {
		c.addrs = c.addrs[:1]
	}
	if fault == "loads once" {
		source, _ := os.ReadFile(os.Getenv("SLUICE_SCRIPTS") + "/list_log_v1.lua")
		if conn, _, err := c.connect(c.addrs...); err == nil {
			_, _, _ = ask(conn, []string{"SCRIPT", "LOAD", string(source)})
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r request
		_ = json.Unmarshal(lines.Bytes(), &r)
		go func() {
			said, _ := json.Marshal(c.answer(r))
			_, _ = os.Stdout.Write(append(said, '\n'))
		}()
	}
}

func (c *caller) answer(r request) map[string]any {
	reply, failed, err := c.call(r)
	if err != nil && c.fault == "retries" {
		reply, failed, err = c.call(r)
	}
	if err != nil {
		c.failures.Add(1)
	}
	if err != nil && c.fault == "stays" { // "stays open" does not close it
		_ = c.conn.Close()
	}
	kind := map[bool]string{true: "unknown", false: "refused"}[err != nil && c.fault != "misleads"]
	switch {
	case err != nil && c.fault == "denies":
		return map[string]any{"id": r.ID, "reply": []int64{0, 0, 0, 0, 0}}
	case err != nil:
		return map[string]any{"id": r.ID, "error": err.Error(), "kind": kind}
	case failed != "" && c.fault == "knows no errors":
		return map[string]any{"id": r.ID, "error": failed, "kind": "unknown"}
	case failed != "":
		return map[string]any{"id": r.ID, "error": failed, "kind": "refused"}
	case c.fault == "throws denials" && reply[0] == 0:
		return map[string]any{"id": r.ID, "error": "denied", "kind": "refused"}
	}
	granted := reply[0] > 0
	if c.fault == "mixes" && c.failures.Load() > 0 {
		reply[1] = 999
	}
	if c.fault == "one" {
		granted = reply[0] == 1
	}
	return map[string]any{"id": r.ID, "reply": reply, "granted": granted}
}

// call asks another node after each failure, and follows redirections.
func (c *caller) call(r request) (reply []int64, failed string, err error) {
	n := int(c.failures.Load()) % len(c.addrs)
	reply, failed, err = c.callAt(slices.Concat(c.addrs[n:], c.addrs[:n]), r, false)
	for range 5 {
		words := strings.Fields(failed)
		isAsk := strings.HasPrefix(failed, "ASK ")
		if !isAsk && !strings.HasPrefix(failed, "MOVED ") || isAsk && c.fault == "follows no ASK" {
			break
		}
		reply, failed, err = c.callAt(words[2:], r, isAsk)
	}
	return reply, failed, err
}

func (c *caller) callAt(addrs []string, r request, asking bool) (reply []int64, failed string, err error) {
	conn, free, err := c.connect(addrs...)
	if err != nil {
		return nil, "", err
	}
	defer free()
	words := append([]string{strconv.Itoa(len(r.Keys))}, texts(r.Keys)...)
	words = append(words, texts(r.Args)...)
	for i, word := range words {
		value, err := strconv.ParseFloat(word, 64)
		switch {
		case c.fault == "sends floats" && err == nil:
			words[i] = strconv.FormatFloat(value, 'f', 0, 64)
		case c.fault == "sends text":
			words[i] = strings.ToValidUTF8(word, "?")
		}
	}
	evalsha := func() ([]int64, string, error) {
		if asking {
			_, _, _ = ask(conn, []string{"ASKING"})
		}
		return ask(conn, append([]string{"EVALSHA", r.SHA1}, words...))
	}
	reply, failed, err = evalsha()
	if strings.HasPrefix(failed, "NOSCRIPT") && c.fault != "loads once" {
		source, _ := os.ReadFile(r.File)
		if c.fault == "eval" {
			return ask(conn, append([]string{"EVAL", string(source)}, words...))
		}
		if _, _, err := ask(conn, []string{"SCRIPT", "LOAD", string(source)}); err != nil {
			return nil, "", err
		}
		return evalsha()
	}
	return reply, failed, err
}

// connect connects to the first node that accepts.
func (c *caller) connect(addrs ...string) (net.Conn, func(), error) {
	if strings.HasPrefix(c.fault, "stays") {
		c.mu.Lock()
		if c.conn == nil {
			c.conn, _ = net.DialTimeout("tcp", addrs[0], time.Second)
		}
		_ = c.conn.SetDeadline(time.Now().Add(time.Second))
		return c.conn, c.mu.Unlock, nil
	}
	bound := time.Second / time.Duration(len(addrs))
	if c.fault == "waits for connects" {
		bound = 0
	}
	if c.fault == "gives up" && c.failures.Load() > 1 {
		return nil, nil, errors.New("failed too often")
	}
	conn, err := net.DialTimeout("tcp", addrs[0], bound)
	if err != nil && len(addrs) > 1 {
		return c.connect(addrs[1:]...)
	}
	if err != nil {
		return nil, nil, err
	}
	if c.fault != "waits" && (c.fault != "waits again" || c.failures.Load() == 0) {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
	}
	if c.fault == "none, asks for the unknown" {
		_, _, err = ask(conn, []string{"CLIENT", "UNKNOWN"})
	}
	return conn, func() { _ = conn.Close() }, err
}

// ask sends a command and reads its reply: integers, or an error text, or a text that is left out.
func ask(conn net.Conn, words []string) (reply []int64, failed string, err error) {
	var command strings.Builder
	fmt.Fprintf(&command, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(conn, command.String()); err != nil {
		return nil, "", err
	}
	read := bufio.NewReader(conn)
	line := func() string {
		text, failed := read.ReadString('\n')
		err = errors.Join(err, failed)
		return strings.TrimSpace(text)
	}
	head := line()
	if err != nil || head[0] == '-' {
		return nil, strings.TrimPrefix(head, "-"), err
	}
	count, _ := strconv.Atoi(head[1:])
	if head[0] == '$' {
		line()
		return nil, "", err
	}
	for range count {
		value, _ := strconv.ParseInt(strings.TrimPrefix(line(), ":"), 10, 64)
		reply = append(reply, value)
	}
	return reply, "", err
}

func texts(words []word) (plain []string) {
	for _, word := range words {
		text, _ := hex.DecodeString(string(word))
		plain = append(plain, string(text))
	}
	return plain
}

const vectors = "../../../../scripttest/vectors"

var cluster, processes = Options{Cluster: true}, Options{Processes: true}

// callers are wrong in one way each, or right, and the row that finds it.
var callers = []struct {
	fault, only     string
	property, tried string
	Options
}{
	{"none", "", "", "", Options{Vectors: vectors}},
	{"none", "", "", "", cluster},
	{"none", "one by one", "", "", processes},
	{"none, asks for the unknown", "ACL", "", "", Options{}},
	{"retries", "lost, one by one", "charged once", "replies are lost, one by one", Options{}},
	{"retries", "lost, 40", "charged once", "replies are lost, 40 at once", Options{}},
	{"waits", "silent, one", "ends in time", "silent, one by one", Options{}},
	{"waits", "silent at first, 40", "ends in time", "silent at first, 40 at once", Options{}},
	{"waits again", "silent, one", "ends in time", "silent, one by one", Options{}},
	{"waits for connects", "hang, one", "ends in time", "connects hang, one by one", Options{}},
	{"gives up", "refused, one by one", "comes back", "connections are refused, one by one", processes},
	{"stays", "restarts", "comes back", "the server restarts", Options{}},
	{"stays open", "late, one", "comes back", "replies are late, one by one", Options{}},
	{"loads once", "FLUSH", "comes back", "SCRIPT FLUSH", Options{}},
	{"misleads", "lost, one by one", "tells apart", "replies are lost, one by one", Options{}},
	{"denies", "lost, one by one", "tells apart", "replies are lost, one by one", Options{}},
	{"knows no errors", "error", "tells apart", "the error reply OOM", Options{}},
	{"knows no errors", "error", "reads right", "the error WRONGTYPE", Options{}},
	{"mixes", "silent, one", "comes back", "silent, one by one", Options{}},
	{"eval", "ACL", "asks for little", "ACL SETUSER", Options{}},
	{"one", "several", "reads right", "several permits", Options{}},
	{"throws denials", "denial", "reads right", "a denial", Options{}},
	{"sends floats", "2^53", "reads right", "a number above 2^53", Options{}},
	{"sends text", "binary", "reads right", "a binary key and id", Options{}},
	{"sends text", "vectors", "reads right", "vectors and calls.json", Options{Vectors: vectors}},
	{"waits", "one node", "ends in time", "one node is silent, 40 at once", cluster},
	{"follows no ASK", "slot", "comes back", "a slot moves", cluster},
	{"knows one node", "dies", "comes back", "a master dies, its replica takes over", cluster},
}

// TestServerTryCaller tries a caller that is right, and callers that are wrong.
func TestServerTryCaller(t *testing.T) {
	for _, test := range callers {
		t.Run(test.fault+" "+test.only, func(t *testing.T) {
			t.Parallel()
			o := test.Options
			o.Command = []string{"env", "TRY_CALLER_FAULT=" + test.fault, os.Args[0]}
			o.Within, o.Only, o.Stderr = time.Second, test.only, t.Output()
			if test.property == "" {
				o.Within = 10 * time.Second
			}
			var failed []Row
			found, rows := test.property == "", 0
			err := Run(t.Context(), o, func(row Row) {
				if rows++; row.Cure != "" || row.Tried == "ACL SETUSER" && o.Cluster != strings.Contains(row.Seen, " +asking ") {
					failed = append(failed, row)
				}
			})
			for _, row := range failed {
				found = found || row.Property == test.property && row.Tried == test.tried
			}
			if err != nil || rows == 0 || !found || test.property == "" && len(failed) > 0 {
				t.Errorf("%v, %d rows, failed: %+v", err, rows, failed)
			}
		})
	}
}

// What COMMAND answers on a server that is well is told at once, not when time is up.
func TestServerTryCallerTellsWhyNotGranted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	output, stderr := io.Pipe()
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if lines.Text() == "not granted yet: unknown: no such user" {
				cancel()
			}
		}
	}()
	answer := `s/.*"id":\([0-9]*\).*/{"id":\1,"kind":"unknown","error":"no such user"}/`
	o := Options{Command: []string{"sed", "-u", answer}, Stderr: stderr}
	err := Run(ctx, o, func(row Row) { t.Errorf("%+v", row) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end that the line brings about", err)
	}
}

// A COMMAND that ends while it is asked is told at once, not when time is up.
func TestServerTryCallerTellsThatCommandEnded(t *testing.T) {
	for _, command := range []string{"read call; exit 3", "yes | head -c 200000 | tr -d '\\n'; read call; exit 3"} {
		o := Options{Command: []string{"sh", "-c", command}, Stderr: t.Output()}
		err := Run(t.Context(), o, func(row Row) { t.Errorf("%+v", row) })
		if err == nil || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("%s: %v, want its exit status", command, err)
		}
	}
}

// A part of no name is an error, not a trial of nothing.
func TestServerTryCallerOnly(t *testing.T) {
	err := Run(t.Context(), Options{Command: []string{"false"}, Only: "silnt", Stderr: t.Output()},
		func(row Row) { t.Errorf("%+v", row) })
	if err == nil || !strings.Contains(err.Error(), "silent, one by one") {
		t.Errorf("%v, want the names", err)
	}
}
