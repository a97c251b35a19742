package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// bareOf is the script of a cell without its decision: it checks the arguments as the script does, runs the commands
// that the script ran for one call, their texts as they were, and replies as it did. No way to decide that needs these
// commands takes less; what the script takes more is what deciding takes.
func (c *cell) bareOf(ctx context.Context, on *server, calls int) (subject, error) {
	bare := c.subject
	if err := c.copies(ctx, on, 1, calls); err != nil {
		return bare, err
	}
	if err := on.ScriptLoad(ctx, c.subject.source).Err(); err != nil {
		return bare, err
	}
	limiter := c.key(calls, 0)
	id := fmt.Sprintf("%016d", 0)
	var reply any
	lines, err := on.monitor(ctx, func() (err error) {
		a := c.ask(calls)
		a.id = id
		reply, err = on.Do(ctx, c.subject.command(limiter, a)...).Result()
		return err
	})
	if err != nil {
		return bare, fmt.Errorf("%s: %w", c, err)
	}
	checks, _, found := strings.Cut(c.subject.source, clockLine)
	if !found {
		return bare, fmt.Errorf("%s: want the clock read after the arguments are checked", c.subject.name)
	}
	bare.source = checks + callsOf(lines, withID(c.subject.at(limiter), id)) + "return " + luaList(reply) + "\n"
	bare.name, bare.sha1 = bare.name+", bare", sha1Hex(bare.source)
	return bare, nil
}

// callsOf writes the commands that a script ran as Lua.
func callsOf(lines []string, keys []string) string {
	var calls strings.Builder
	for _, line := range lines {
		if _, script := monitored(line); !script {
			continue
		}
		args := arguments(line)
		for i, arg := range args {
			if k := slices.Index(keys, arg); k >= 0 {
				args[i] = fmt.Sprintf("KEYS[%d]", k+1)
			} else {
				args[i] = luaString(arg)
			}
		}
		fmt.Fprintf(&calls, "redis.call(%s)\n", strings.Join(args, ", "))
	}
	return calls.String()
}

// arguments are the texts of a line of MONITOR, the command's name first. It quotes them as Go does.
func arguments(line string) []string {
	_, rest, _ := strings.Cut(line, "] ")
	var list []string
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		text, _ := strconv.Unquote(quoted)
		list = append(list, text)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return list
}

// luaString writes any bytes as a literal.
func luaString(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, `\%03d`, c)
	}
	return `"` + b.String() + `"`
}

// luaList writes the integers of a reply.
func luaList(reply any) string {
	list, _ := reply.([]any)
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = fmt.Sprint(n)
	}
	return "{" + strings.Join(texts, ", ") + "}"
}
