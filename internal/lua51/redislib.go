package lua51

import (
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
	return map[string]function{
		"call":               redisCall,
		"pcall":              redisPcall,
		"error_reply":        redisErrorReply,
		"status_reply":       redisStatusReply,
		"sha1hex":            redisSHA1Hex,
		"log":                redisLog,
		"replicate_commands": redisReplicateCommands,
		"set_repl":           redisSetRepl,
		"setresp":            redisSetResp,
		"breakpoint":         redisBreakpoint,
		"debug":              redisDebug,
		"acl_check_cmd":      redisACLCheck,
	}
}

func redisCall(c call) int {
	reply := c.command()
	if t, ok := reply.(*lua.LTable); ok && t.RawGetString("err") != lua.LNil {
		c.Error(t, 0)
	}
	c.Push(reply)
	return 1
}

func redisPcall(c call) int {
	c.Push(c.command())
	return 1
}

// command runs the command that the arguments spell.
func (c call) command() lua.LValue {
	if c.GetTop() == 0 {
		return c.refusal("Please specify at least one argument for this redis lib call")
	}
	words := make([]string, c.GetTop())
	for i := range words {
		word, ok := commandWord(c.Get(i + 1))
		if !ok {
			return c.refusal("Lua redis lib command arguments must be strings or integers")
		}
		words[i] = word
	}
	return c.execute(words)
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

// refuse raises such an error.
func (c call) refuse(text string) {
	c.Error(c.refusal(text), 0)
}

func redisErrorReply(c call) int {
	text, ok := c.Get(1).(lua.LString)
	if !ok || c.GetTop() != 1 {
		c.Push(c.refusal("wrong number or type of arguments"))
		return 1
	}
	c.Push(field(c.LState, "err", errorText(string(text))))
	return 1
}

func redisStatusReply(c call) int {
	text, ok := c.Get(1).(lua.LString)
	if !ok || c.GetTop() != 1 {
		c.Push(c.refusal("wrong number or type of arguments"))
		return 1
	}
	c.Push(field(c.LState, "ok", string(text)))
	return 1
}

func redisSHA1Hex(c call) int {
	if c.GetTop() != 1 {
		c.refuse("wrong number of arguments")
	}
	text, _ := toString(c.Get(1))
	c.pushString(sha1Hex(text))
	return 1
}

// redisLog checks its arguments and logs to Redis.Log.
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

func redisReplicateCommands(c call) int {
	c.Push(lua.LTrue)
	return 1
}

func redisSetRepl(c call) int {
	if c.GetTop() != 1 {
		c.refuse("redis.set_repl() requires two arguments.")
	}
	if flags, _ := toNumber(c.Get(1)); flags < 0 || flags > 3 {
		c.refuse("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}

func redisSetResp(c call) int {
	if c.GetTop() != 1 {
		c.refuse("redis.setresp() requires one argument.")
	}
	switch version, _ := toNumber(c.Get(1)); int32(version) {
	case 2:
	case 3:
		runOf(c.LState).refuse(c.LState, "redis.setresp(3)")
	default:
		c.refuse("RESP version must be 2 or 3.")
	}
	return 0
}

// redisBreakpoint says that no debugger is there.
func redisBreakpoint(c call) int {
	c.Push(lua.LFalse)
	return 1
}

func redisDebug(call) int { return 0 }

// redisACLCheck knows no users: what is a command is allowed, unless Refuse says otherwise.
func redisACLCheck(c call) int {
	words := make([]string, c.GetTop())
	if len(words) == 0 {
		c.refuse("Please specify at least one argument for this redis lib call")
	}
	for i := range words {
		word, ok := commandWord(c.Get(i + 1))
		if !ok {
			c.refuse("Lua redis lib command arguments must be strings or integers")
		}
		words[i] = word
	}
	spec, known := lookUp(words)
	if !known {
		c.refuse("Invalid command passed to redis.acl_check_cmd()")
	}
	c.Push(lua.LBool(!runOf(c.LState).redis.refuses(spec)))
	return 1
}
