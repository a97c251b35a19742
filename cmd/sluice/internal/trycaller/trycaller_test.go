package trycaller

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/localredis"
)

// TestMain is COMMAND where a test says so: a caller that is right, or wrong in one way.
func TestMain(m *testing.M) {
	if fault := os.Getenv("TRY_CALLER_FAULT"); fault != "" {
		serve(fault)
		return
	}
	os.Exit(m.Run())
}

// caller calls scripts over a connection a call, or over one that stays.
type caller struct {
	fault, addr string
	mu          sync.Mutex
	conn        net.Conn
}

func serve(fault string) {
	at, _ := url.Parse(os.Getenv("SLUICE_REDIS"))
	c := &caller{fault: fault, addr: at.Host}
	if fault == "loads once" {
		source, _ := os.ReadFile(os.Getenv("SLUICE_SCRIPTS") + "/list_log_v1.lua")
		if conn, _, err := c.connect(); err == nil {
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
	kind := map[bool]string{true: unknown, false: refused}[err != nil && c.fault != "misleads"]
	switch {
	case err != nil && c.fault == "denies":
		return map[string]any{"id": r.ID, "reply": []int64{0, 0, 0, 0, 0}}
	case err != nil:
		return map[string]any{"id": r.ID, "error": err.Error(), "kind": kind}
	case failed != "":
		return map[string]any{"id": r.ID, "error": failed, "kind": refused}
	}
	granted := reply[0] > 0
	if c.fault == "mixes" && len(reply) > 1 {
		reply[1] = 999
	}
	if c.fault == "one" {
		granted = reply[0] == 1
	}
	return map[string]any{"id": r.ID, "reply": reply, "granted": granted}
}

func (c *caller) call(r request) (reply []int64, failed string, err error) {
	conn, free, err := c.connect()
	if err != nil {
		return nil, "", err
	}
	defer free()
	words := append([]string{strconv.Itoa(len(r.Keys))}, texts(r.Keys)...)
	words = append(words, texts(r.Args)...)
	reply, failed, err = ask(conn, append([]string{"EVALSHA", r.SHA1}, words...))
	if strings.HasPrefix(failed, "NOSCRIPT") && c.fault != "loads once" {
		source, _ := os.ReadFile(r.File)
		if c.fault == "eval" {
			return ask(conn, append([]string{"EVAL", string(source)}, words...))
		}
		if _, _, err := ask(conn, []string{"SCRIPT", "LOAD", string(source)}); err != nil {
			return nil, "", err
		}
		return ask(conn, append([]string{"EVALSHA", r.SHA1}, words...))
	}
	return reply, failed, err
}

func (c *caller) connect() (net.Conn, func(), error) {
	if c.fault == "stays" {
		c.mu.Lock()
		if c.conn == nil {
			c.conn, _ = net.DialTimeout("tcp", c.addr, time.Second)
		}
		_ = c.conn.SetDeadline(time.Now().Add(time.Second / 40))
		return c.conn, c.mu.Unlock, nil
	}
	conn, err := net.DialTimeout("tcp", c.addr, time.Second)
	if err != nil {
		return nil, nil, err
	}
	if c.fault != "waits" {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
	}
	return conn, func() { _ = conn.Close() }, nil
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

func texts(words []string) (plain []string) {
	for _, word := range words {
		text, _ := hex.DecodeString(word)
		plain = append(plain, string(text))
	}
	return plain
}

// TestServerTryCaller tries a caller that is right, and callers that are wrong in one way each: the row finds it.
func TestServerTryCaller(t *testing.T) {
	programs, err := localredis.Programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ fault, only, property, tried string }{
		{"none", "", "", ""},
		{"retries", "lost, one by one", ChargedOnce, "replies are lost, one by one"},
		{"retries", "lost, 40", ChargedOnce, "replies are lost, 40 at once"},
		{"waits", "silent, one", EndsInTime, "silent, one call"},
		{"waits", "silent at first, 40", EndsInTime, "silent at first, 40 at once"},
		{"stays", "restarts", ComesBack, "the server restarts"},
		{"loads once", "FLUSH", ComesBack, "SCRIPT FLUSH"},
		{"misleads", "lost, one by one", TellsApart, "replies are lost, one by one"},
		{"denies", "lost, one by one", TellsApart, "replies are lost, one by one"},
		{"mixes", "silent, one", ComesBack, "silent, one call"},
		{"eval", "", AsksLittle, "the commands of list_log"},
		{"one", "", ReadsRight, "several permits"},
	} {
		t.Run(test.fault+" "+test.only, func(t *testing.T) {
			t.Parallel()
			o := Options{Command: []string{"env", "TRY_CALLER_FAULT=" + test.fault, os.Args[0]}, Binary: programs[0],
				Within: 3 * time.Second, Only: test.only, Stderr: t.Output()}
			var failed []Row
			rows := 0
			err := Run(t.Context(), o, func(row Row) {
				if rows++; row.Cure != "" {
					failed = append(failed, row)
				}
			})
			if err != nil || rows == 0 || len(failed) > 0 != (test.property != "") {
				t.Fatalf("%v, %d rows, failed: %+v", err, rows, failed)
			}
			for _, row := range failed {
				if row.Property == test.property && row.Tried == test.tried {
					return
				}
			}
			if test.property != "" {
				t.Errorf("failed: %+v", failed)
			}
		})
	}
}

// A part of no name is an error, not a trial of nothing.
func TestServerTryCallerOnly(t *testing.T) {
	programs, err := localredis.Programs()
	if err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), Options{Command: []string{"false"}, Binary: programs[0], Only: "silnt", Stderr: t.Output()},
		func(row Row) { t.Errorf("%+v", row) })
	if err == nil || !strings.Contains(err.Error(), "silent, one call") {
		t.Errorf("%v, want the names", err)
	}
}
