package lua51

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"
)

// Snapshot writes the whole store as text, a line a key in the order of their names: name,
// type, value byte for byte, and when it expires in milliseconds since 1970. Two equal texts are two
// equal stores. Moving the clock alone changes nothing but the keys that expire.
func (r *Redis) Snapshot() string {
	r.settleAll()
	var out strings.Builder
	store := r.mini.DB(0)
	for _, key := range store.Keys() {
		fmt.Fprintf(&out, "%q %s\n", key, r.describe(store, key))
	}
	return out.String()
}

func (r *Redis) describe(store *miniredis.RedisDB, key string) string {
	text := store.Type(key) + " " + value(store, key)
	if d, ok := r.deadlines[key]; ok {
		text += fmt.Sprintf(" expires %d", d.due)
	}
	return text
}

// value is a key's value; the errors of the accessors cannot occur, since the type is known.
func value(store *miniredis.RedisDB, key string) string {
	switch store.Type(key) {
	case "string":
		s, _ := store.Get(key)
		return strconv.Quote(s)
	case "list":
		items, _ := store.List(key)
		return fmt.Sprintf("%q", items)
	case "set":
		members, _ := store.Members(key)
		return fmt.Sprintf("%q", members)
	case "hash":
		return hashValue(store, key)
	case "zset":
		return zsetValue(store, key)
	}
	return "of a type that is not emulated"
}

func hashValue(store *miniredis.RedisDB, key string) string {
	fields, _ := store.HKeys(key)
	slices.Sort(fields)
	pairs := make([]string, len(fields))
	for i, field := range fields {
		pairs[i] = strconv.Quote(field) + "=" + strconv.Quote(store.HGet(key, field))
	}
	return "{" + strings.Join(pairs, " ") + "}"
}

func zsetValue(store *miniredis.RedisDB, key string) string {
	scores, _ := store.SortedSet(key)
	members := slices.SortedFunc(maps.Keys(scores), func(a, b string) int {
		return cmp.Or(cmp.Compare(scores[a], scores[b]), cmp.Compare(a, b))
	})
	for i, member := range members {
		members[i] = strconv.FormatFloat(scores[member], 'g', -1, 64) + ":" + strconv.Quote(member)
	}
	return "[" + strings.Join(members, " ") + "]"
}

// Bytes returns how many bytes the keys and their values have, without what a server adds to them; the score of a
// member counts as 8. Cost: it grows with the number of values.
func (r *Redis) Bytes() (n int64) {
	r.settleAll()
	store := r.mini.DB(0)
	for _, key := range store.Keys() {
		n += int64(len(key)) + valueBytes(store, key)
	}
	return n
}

func valueBytes(store *miniredis.RedisDB, key string) (n int64) {
	var texts []string
	switch store.Type(key) {
	case "string":
		text, _ := store.Get(key)
		return int64(len(text))
	case "list":
		texts, _ = store.List(key)
	case "set":
		texts, _ = store.Members(key)
	case "hash":
		fields, _ := store.HKeys(key)
		for _, field := range fields {
			n += int64(len(field) + len(store.HGet(key, field)))
		}
	case "zset":
		scores, _ := store.SortedSet(key)
		for member := range scores {
			n += int64(len(member)) + 8
		}
	}
	for _, text := range texts {
		n += int64(len(text))
	}
	return n
}
