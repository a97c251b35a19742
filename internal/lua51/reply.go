package lua51

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// fromReply makes a Lua value of a command's reply: nil is false, a status {ok=}, an error {err=}.
func fromReply(L *lua.LState, reply any) lua.LValue {
	switch reply := reply.(type) {
	case int64:
		return lua.LNumber(reply)
	case string:
		return lua.LString(reply)
	case Status:
		return field(L, "ok", string(reply))
	case ErrorReply:
		return errorTable(L, string(reply))
	case []any:
		t := L.CreateTable(len(reply), 0)
		for _, item := range reply {
			t.Append(fromReply(L, item))
		}
		return t
	}
	return lua.LFalse
}

func field(L *lua.LState, name, text string) *lua.LTable {
	t := L.NewTable()
	t.RawSetString(name, lua.LString(text))
	return t
}

// errorTable is what redis.pcall gives for the error of a command.
func errorTable(L *lua.LState, text string) *lua.LTable {
	t := field(L, "err", text)
	t.RawSetString("ignore_error_stats_update", lua.LTrue)
	return t
}

func (r *run) reply(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return toInt64(float64(v))
	case lua.LBool:
		if v {
			return int64(1)
		}
	case *lua.LTable:
		return r.tableReply(unprotected(v))
	}
	return nil
}

func (r *run) tableReply(t *lua.LTable) any {
	if text, ok := t.RawGetString("err").(lua.LString); ok {
		return errorReply(string(text))
	}
	if text, ok := t.RawGetString("ok").(lua.LString); ok {
		return Status(lineBreaks.Replace(string(text)))
	}
	for _, kind := range []string{"double", "map", "set"} {
		if t.RawGetString(kind) != lua.LNil {
			r.doubt("a reply of RESP3, with a field " + kind)
		}
	}
	items := []any{}
	for i := 1; ; i++ {
		v := t.RawGetInt(i)
		if v == lua.LNil {
			return items
		}
		items = append(items, r.reply(v))
	}
}

// errorText is what redis.error_reply puts into err: "CODE text", and ERR where no code is given.
func errorText(s string) string {
	s = strings.Trim(strings.TrimPrefix(s, "-"), "\r\n")
	if !strings.Contains(s, " ") {
		return "ERR " + s
	}
	return s
}
