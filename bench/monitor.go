package main

import (
	"bufio"
	"context"
	"net"
	"strings"
)

// observed is how often a command was seen: sent by a client, or run within a script or a transaction, whose time holds
// it.
type observed struct{ sent, nested int }

// endOfSample ends what monitor listens to.
const endOfSample = "end of sample"

// monitor returns what MONITOR says of the commands that the server runs while do runs, a line each.
func (s *server) monitor(ctx context.Context, do func() error) ([]string, error) {
	conn, err := net.Dial("tcp", s.process.Addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	said := bufio.NewScanner(conn)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		return nil, err
	}
	said.Scan() // +OK
	if err := do(); err != nil {
		return nil, err
	}
	if err := s.Echo(ctx, endOfSample).Err(); err != nil {
		return nil, err
	}
	var lines []string
	for said.Scan() && !strings.Contains(said.Text(), endOfSample) {
		lines = append(lines, said.Text())
	}
	return lines, said.Err()
}

// tally counts the commands in what MONITOR said.
func tally(lines []string) map[string]observed {
	seen := map[string]observed{}
	transaction := false
	for _, line := range lines {
		name, script := monitored(line)
		o := seen[name]
		if script || transaction && name != "exec" {
			o.nested++
		} else {
			o.sent++
		}
		seen[name] = o
		transaction = !script && name != "exec" && (transaction || name == "multi")
	}
	return seen
}

// monitored reads `+1339518083.107412 [0 lua] "get" "key"`: the name of the command, and whether a script ran it.
func monitored(line string) (name string, script bool) {
	_, rest, _ := strings.Cut(line, "[")
	from, rest, _ := strings.Cut(rest, "] \"")
	name, _, _ = strings.Cut(rest, "\"")
	return strings.ToLower(name), strings.HasSuffix(from, " lua")
}
