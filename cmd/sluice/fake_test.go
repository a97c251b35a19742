package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// fakeServer speaks RESP on a loopback port and answers each command with what reply returns, until the test ends.
func fakeServer(tb testing.TB, reply func(args []string) string) (addr string) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn, reply)
		}
	}()
	return listener.Addr().String()
}

// answer serves one connection until the client closes it.
func answer(conn net.Conn, reply func(args []string) string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, reply(args)); err != nil {
			return
		}
	}
}

// readCommand reads an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readCount(in)
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readCount(in)
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

func readCount(in *bufio.Reader) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// bulk is a bulk string of RESP.
func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// unknownCommand answers as Redis does to what it does not know: with all that was sent.
func unknownCommand(args []string) string {
	return "-ERR unknown command '" + args[0] + "', with args beginning with: '" + strings.Join(args[1:], "' '") + "'\r\n"
}

// repeats answers every command with an error that repeats it.
func repeats(args []string) string {
	return "-DENIED you said " + strings.NewReplacer("\r", " ", "\n", " ").Replace(strings.Join(args, " ")) + "\r\n"
}
