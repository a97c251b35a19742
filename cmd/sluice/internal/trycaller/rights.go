package trycaller

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
)

// containers are commands whose first argument is a part of their name.
var containers = []string{"acl", "client", "cluster", "command", "config", "function", "latency", "memory", "module",
	"object", "pubsub", "script", "slowlog"}

// asks watches which commands COMMAND sends from its start on, and reports what an ACL must allow. On its own server it
// lets COMMAND do that and nothing else for a moment.
func (t *trial) asks() error {
	watch, cancel := context.WithCancel(t.ctx)
	defer cancel()
	var mu sync.Mutex
	var lines []string
	for _, n := range t.nodes {
		err := monitor(watch, n.rdb, func(line string) { mu.Lock(); lines = append(lines, line); mu.Unlock() })
		if err != nil {
			t.report(Row{Property: AsksLittle, Tried: "MONITOR", Seen: "left out: " + err.Error()})
			return nil
		}
	}
	if t.Redis == "" {
		t.each(t.ctx, "SCRIPT", "FLUSH")
	}
	if err := t.start(true); err != nil {
		return err
	}
	t.calls(atOnce, "asks")
	cancel()
	mu.Lock()
	sent := t.sentBy(lines)
	mu.Unlock()
	row := Row{Property: AsksLittle, Tried: "the commands of list_log", Seen: strings.Join(sent, " ")}
	if slices.ContainsFunc(sent, func(name string) bool { return strings.HasPrefix(name, "eval") && name != "evalsha" }) {
		row.Cure = "call EVALSHA: a helper for scripts that falls back to EVAL wants a right that runs any script"
	}
	t.report(row)
	for _, command := range sluice.ListLogV1().Commands {
		sent = append(sent, strings.ToLower(command))
	}
	slices.Sort(sent)
	rules := "+" + strings.Join(slices.Compact(sent), " +")
	row = Row{Property: AsksLittle, Tried: "ACL SETUSER", Seen: "app on >secret resetchannels ~sluice:* " + rules}
	if t.Redis == "" && !t.Cluster {
		if err := t.allowOnly(rules); err != nil {
			row.Cure = err.Error()
		}
	}
	t.report(row)
	return nil
}

// allowOnly restricts COMMAND's user, and starts COMMAND again.
func (t *trial) allowOnly(rules string) error {
	words := []any{"ACL", "SETUSER", "default", "reset", "on", "nopass", "~sluice:*"}
	for rule := range strings.FieldsSeq(rules) {
		words = append(words, rule)
	}
	if err := t.nodes[0].rdb.Do(t.ctx, words...).Err(); err != nil {
		return err
	}
	err := t.start(true)
	everything := []any{"ACL", "SETUSER", "default", "reset", "on", "nopass", "~*", "&*", "+@all"}
	return errors.Join(err, t.nodes[0].rdb.Do(t.ctx, everything...).Err())
}

// sentBy returns the commands that came through the proxies: sorted, container|subcommand.
func (t *trial) sentBy(lines []string) (names []string) {
	own := map[string]bool{}
	for _, n := range t.nodes {
		for _, addr := range n.proxy.Dialed() {
			own[addr] = true
		}
	}
	for _, line := range lines {
		_, line, _ = strings.Cut(line, " [")
		from, words, _ := strings.Cut(line, "] ")
		_, addr, _ := strings.Cut(from, " ")
		fields := strings.Fields(strings.ToLower(strings.ReplaceAll(words, `"`, "")))
		if !own[addr] || len(fields) == 0 {
			continue
		}
		name := fields[0]
		switch {
		case slices.Contains([]string{"hello", "auth", "quit", "reset", "replconf", "psync"}, name): // need no right
			continue
		case slices.Contains(containers, name) && len(fields) > 1:
			name += "|" + fields[1]
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// monitor calls seen with each line of MONITOR until the context ends.
func monitor(ctx context.Context, rdb *redis.Client, seen func(string)) error {
	options, replies := rdb.Options(), 1
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", options.Addr)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	if options.Password != "" {
		user := cmp.Or(options.Username, "default")
		_, _ = fmt.Fprintf(conn, "AUTH %s %s\r\n", strconv.Quote(user), strconv.Quote(options.Password))
		replies++
	}
	_, _ = io.WriteString(conn, "MONITOR\r\n")
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	for range replies {
		if !lines.Scan() || lines.Text() != "+OK" {
			return fmt.Errorf("MONITOR: %w %s", lines.Err(), lines.Text())
		}
	}
	go func() {
		for lines.Scan() {
			seen(lines.Text())
		}
	}()
	return nil
}
