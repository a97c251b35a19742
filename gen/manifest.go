package main

import (
	"bytes"
	"encoding/json"
)

// The types of scripts/manifest.json. Their order is that of the file.
type manifestFile struct {
	Format  int               `json:"format"`
	Types   map[string]string `json:"types"`
	Scripts []manifestScript  `json:"scripts"`
}

type manifestScript struct {
	Name       string          `json:"name"`
	Version    int             `json:"version"`
	File       string          `json:"file"`
	SHA1       string          `json:"sha1"`
	About      string          `json:"about"`
	Keys       []key           `json:"keys"` // of many subjects: in the group
	Arguments  []manifestField `json:"arguments"`
	Reply      []manifestField `json:"reply"`
	Group      *manifestGroup  `json:"group,omitempty"`
	Errors     []errorCode     `json:"errors"`
	Commands   []string        `json:"commands"`
	State      string          `json:"state"`
	Layout     string          `json:"layout"`
	Complexity string          `json:"complexity"`
	Cost       string          `json:"cost"`
	Redis      string          `json:"redis"`
}

type manifestField struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Min  int64  `json:"min"`
	Max  *int64 `json:"max,omitempty"`
	Text string `json:"text"`
}

// A manifestGroup holds the repeated keys, arguments and replies. They occur min to max times. A group inside that of
// the keys has arguments that are the same for all keys, and replies that follow those of each key.
type manifestGroup struct {
	Name      string          `json:"name"`
	Min       int64           `json:"min"`
	Max       int64           `json:"max"`
	Keys      []key           `json:"keys,omitempty"`
	Arguments []manifestField `json:"arguments"`
	Reply     []manifestField `json:"reply"`
	Group     *manifestGroup  `json:"group,omitempty"`
}

func manifest(scripts []*script) []byte {
	file := manifestFile{Format: 1, Types: map[string]string{
		"int":  "an integer; as an argument, 1 to 16 decimal digits",
		"us":   "an int: a duration in microseconds",
		"time": "an int: a time of the server's clock, in microseconds since 1970-01-01 UTC",
		"str":  "a string; min and max are its length in bytes",
	}}
	for _, s := range scripts {
		file.Scripts = append(file.Scripts, manifestOf(s))
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(file); err != nil {
		panic(err) // strings and numbers always encode
	}
	return b.Bytes()
}

func manifestOf(s *script) manifestScript {
	m := manifestScript{
		Name: s.Name, Version: s.Version, File: s.File(), SHA1: s.SHA1(), About: s.Prose(),
		Keys: s.Keys, Errors: s.Errors,
		Arguments: manifestFields(plain(s.Args)), Reply: manifestFields(plain(s.Reply)),
		Commands: s.Commands, State: s.State(), Layout: s.Layout(),
		Complexity: s.Cost.Order, Cost: s.Cost.Text, Redis: s.Redis,
	}
	if g := s.Group; g != nil {
		args, reply := manifestFields(inGroup(s.Args)), manifestFields(inGroup(s.Reply))
		m.Group = &manifestGroup{g.Name, g.Min, g.Max, nil, args, reply, nil}
	}
	if g := s.KeyGroup; g != nil {
		m.Keys = []key{}
		m.Group = &manifestGroup{g.Name, g.Min, g.Max, s.Keys, []manifestField{}, manifestFields(ofKeys(s.Reply)), m.Group}
	}
	return m
}

func manifestFields(fields []field) []manifestField {
	found := []manifestField{}
	for _, f := range fields {
		m := manifestField{Name: f.Name, Type: f.Type, Min: f.Min, Text: f.Text}
		if f.Max >= 0 {
			m.Max = &f.Max
		}
		found = append(found, m)
	}
	return found
}
