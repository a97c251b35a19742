package lua51

import (
	"maps"

	lua "github.com/yuin/gopher-lua"
)

// redisVersion is the Redis whose behaviour is emulated.
const (
	redisVersion    = "7.0.15"
	redisVersionNum = 0x0007000f
)

func redisConstants() map[string]lua.LValue {
	return map[string]lua.LValue{
		"REDIS_VERSION":     lua.LString(redisVersion),
		"REDIS_VERSION_NUM": lua.LNumber(redisVersionNum),
		"LOG_DEBUG":         lua.LNumber(0),
		"LOG_VERBOSE":       lua.LNumber(1),
		"LOG_NOTICE":        lua.LNumber(2),
		"LOG_WARNING":       lua.LNumber(3),
		"REPL_NONE":         lua.LNumber(0),
		"REPL_AOF":          lua.LNumber(1),
		"REPL_SLAVE":        lua.LNumber(2),
		"REPL_REPLICA":      lua.LNumber(2),
		"REPL_ALL":          lua.LNumber(3),
	}
}

func redisFunctions() map[string]function {
	functions := refusedAll("redis", "acl_check_cmd", "breakpoint", "debug", "set_repl", "setresp")
	maps.Copy(functions, map[string]function{
		"call":               redisCall,
		"pcall":              func(c call) int { return c.push(c.command()) },
		"error_reply":        replyTable("err", errorText),
		"status_reply":       replyTable("ok", func(text string) string { return text }),
		"sha1hex":            redisSHA1Hex,
		"log":                redisLog,
		"replicate_commands": func(c call) int { return c.push(lua.LTrue) },
	})
	return functions
}

func redisCall(c call) int {
	reply := c.command()
	if t, ok := reply.(*lua.LTable); ok && t.RawGetString("err") != lua.LNil {
		c.Error(t, 0)
	}
	return c.push(reply)
}

func (c call) command() lua.LValue {
	words, bad := c.words()
	if bad != "" {
		return c.refusal(bad)
	}
	return c.execute(words)
}

// words are the arguments as a command's words. bad says why they are none.
func (c call) words() (words []string, bad string) {
	if c.GetTop() == 0 {
		return nil, "Please specify at least one argument for this redis lib call"
	}
	for i := range c.GetTop() {
		word, ok := commandWord(c.Get(i + 1))
		if !ok {
			return nil, "Lua redis lib command arguments must be strings or integers"
		}
		words = append(words, word)
	}
	return words, ""
}

// commandWord is an argument as Redis passes it to the command: numbers with 17 digits.
func commandWord(v lua.LValue) (string, bool) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), true
	case lua.LNumber:
		return formatG(float64(v), 17), true
	}
	return "", false
}

// execute checks a command as the script engine does and hands it to the server.
func (c call) execute(words []string) lua.LValue {
	run := runOf(c.LState)
	spec, known := lookUp(words)
	switch {
	case !known:
		return errorTable(c.LState, "ERR Unknown Redis command called from script")
	case !spec.takes(len(words)):
		return errorTable(c.LState, "ERR Wrong number of args calling Redis command from script")
	case spec.noScript:
		return errorTable(c.LState, "ERR This Redis command is not allowed from script")
	case run.redis.refuses(spec):
		return errorTable(c.LState, "ERR The user executing the script can't run this command or subcommand")
	case spec.write && run.readOnly:
		return errorTable(c.LState, "ERR Write commands are not allowed from read-only scripts.")
	}
	for _, word := range words {
		run.sent += len(word)
	}
	if run.sent > maxString {
		run.refuse(c.LState, "commands of more than 256 MB in one run")
	}
	reply, err := run.client.do(words)
	if err != nil {
		run.end(c.LState, err)
	}
	run.commands = append(run.commands, Command{Args: words, Write: spec.write})
	return fromReply(c.LState, reply)
}

// refusal is the error of a call that got as far as no command.
func (c call) refusal(text string) lua.LValue {
	return field(c.LState, "err", "ERR "+text)
}

func (c call) refuse(text string) {
	c.Error(c.refusal(text), 0)
}

func replyTable(name string, format func(string) string) function {
	return func(c call) int {
		text, ok := c.Get(1).(lua.LString)
		if !ok || c.GetTop() != 1 {
			return c.push(c.refusal("wrong number or type of arguments"))
		}
		return c.push(field(c.LState, name, format(string(text))))
	}
}

func redisSHA1Hex(c call) int {
	if c.GetTop() != 1 {
		c.refuse("wrong number of arguments")
	}
	text, _ := toString(c.Get(1))
	return c.push(lua.LString(sha1Hex(text)))
}

func redisLog(c call) int {
	if c.GetTop() < 2 {
		c.refuse("redis.log() requires two arguments or more.")
	}
	level, ok := toNumber(c.Get(1))
	if !ok {
		c.refuse("First argument must be a number (log level).")
	}
	if n := toInt32(level); n < 0 || n > 3 {
		c.refuse("Invalid debug level.")
	}
	text := ""
	for i := 2; i <= c.GetTop(); i++ {
		if s, ok := toString(c.Get(i)); ok {
			text += " " + s
		}
	}
	run := runOf(c.LState)
	if run.redis.Log != nil {
		run.redis.Log(run.script.Name + ":" + text)
	}
	return 0
}
