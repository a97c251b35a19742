package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Do is the store after a command that succeeds: one of the few by which operators, evictions and damage
// change it between calls.
func (s Store) Do(now int64, words ...string) (Store, error) {
	if words[0] == "DEL" {
		return s.Without(words[1:]...), nil
	}
	value, known := s[words[1]].after(now, words[0], words[2:])
	if !known {
		return s, fmt.Errorf("no model of %q", words)
	}
	if len(value.List)+len(value.ZSet)+len(value.Hash) == 0 && value.Type != "string" {
		return s.Without(words[1]), nil
	}
	return s.With(words[1], value), nil
}

func (v Value) after(now int64, command string, args []string) (after Value, known bool) {
	switch command {
	case "SET":
		return Value{Type: "string", Text: args[0]}, true
	case "SETRANGE":
		v.Text = overwritten(v.Text, number(args[0]), args[1])
	case "APPEND":
		v.Type, v.Text = "string", v.Text+args[0]
	case "RPUSH":
		v.Type, v.List = "list", append(slices.Clone(v.List), args...)
	case "LSET":
		v.List = slices.Clone(v.List)
		v.List[number(args[0])] = args[1]
	case "LREM":
		v.List = slices.DeleteFunc(slices.Clone(v.List), func(entry string) bool { return entry == args[1] })
	case "ZADD":
		v.Type, v.ZSet = "zset", added(v.ZSet, args)
	case "ZREM":
		v.ZSet = without(v.ZSet, args)
	case "HSET":
		v.Type, v.Hash = "hash", set(v.Hash, args)
	case "HDEL":
		v.Hash = without(v.Hash, args)
	case "PEXPIRE":
		v.Expires = now/1000 + number(args[0])
	case "PERSIST":
		v.Expires = 0
	default:
		return v, false
	}
	return v, true
}

// number reads what the tests themselves write.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func overwritten(text string, at int64, part string) string {
	bytes := append([]byte(text), make([]byte, max(0, int(at)+len(part)-len(text)))...)
	copy(bytes[at:], part)
	return string(bytes)
}

func added(members map[string]float64, args []string) map[string]float64 {
	after := map[string]float64{}
	maps.Copy(after, members)
	for i := 0; i < len(args); i += 2 {
		after[args[i+1]], _ = strconv.ParseFloat(args[i], 64)
	}
	return after
}

func set(fields map[string]string, args []string) map[string]string {
	after := map[string]string{}
	maps.Copy(after, fields)
	for i := 0; i < len(args); i += 2 {
		after[args[i]] = args[i+1]
	}
	return after
}

func without[V any](m map[string]V, names []string) map[string]V {
	after := maps.Clone(m)
	for _, name := range names {
		delete(after, name)
	}
	return after
}
