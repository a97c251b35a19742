package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Store holds the values of a server by key. It is never changed in place.
type Store map[string]Value

// Value is the value of a key: only the field of its type is set.
type Value struct {
	Type    string // "string", "list", "zset" or "hash"
	Text    string
	List    []string
	ZSet    map[string]float64
	Hash    map[string]string
	Expires int64 // when the key expires, in milliseconds since 1970; 0: never
}

// With returns the store after a key was set.
func (s Store) With(key string, value Value) Store {
	after := maps.Clone(s)
	if after == nil {
		after = Store{}
	}
	after[key] = value
	return after
}

// Without returns the store after keys were deleted.
func (s Store) Without(keys ...string) Store {
	after := maps.Clone(s)
	for _, key := range keys {
		delete(after, key)
	}
	return after
}

// Expired returns the keys that have expired at the time now, in microseconds.
func (s Store) Expired(now int64) (keys []string) {
	for key, value := range s {
		if value.Expires != 0 && now/1000 > value.Expires {
			keys = append(keys, key)
		}
	}
	return keys
}

// String writes the store as scripttest's Snapshot does.
func (s Store) String() string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&out, "0 %q %s", key, s[key])
		if at := s[key].Expires; at != 0 {
			fmt.Fprintf(&out, " expires %d", at)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// String formats the type and the value, without the expiry.
func (v Value) String() string {
	switch v.Type {
	case "string":
		return "string " + strconv.Quote(v.Text)
	case "list":
		return fmt.Sprintf("list %q", v.List)
	case "zset":
		return "zset [" + strings.Join(v.members(), " ") + "]"
	case "hash":
		return "hash {" + strings.Join(v.fields(), " ") + "}"
	}
	return "nothing"
}

func (v Value) members() (words []string) {
	for _, m := range v.Ranked() {
		words = append(words, strconv.FormatFloat(m.Score, 'g', -1, 64)+":"+strconv.Quote(m.Name))
	}
	return words
}

func (v Value) fields() (words []string) {
	for _, field := range slices.Sorted(maps.Keys(v.Hash)) {
		words = append(words, strconv.Quote(field)+"="+strconv.Quote(v.Hash[field]))
	}
	return words
}

// Member is a member of a sorted set.
type Member struct {
	Name  string
	Score float64
}

// Ranked returns the members of a sorted set in its order.
func (v Value) Ranked() []Member {
	members := make([]Member, 0, len(v.ZSet))
	for name, score := range v.ZSet {
		members = append(members, Member{name, score})
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.Name, b.Name))
	})
	return members
}

// scored returns a sorted set of these members.
func scored(members []Member) map[string]float64 {
	set := map[string]float64{}
	for _, m := range members {
		set[m.Name] = m.Score
	}
	return set
}
