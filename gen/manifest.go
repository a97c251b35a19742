package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice/internal/rights"
)

// The types of scripts/manifest.json. Their order is that of the file.
type manifestFile struct {
	Schema  string            `json:"$schema"`
	Format  int               `json:"format"`
	Types   map[string]string `json:"types"`
	Key     keyRules          `json:"key"`
	Scripts []manifestScript  `json:"scripts"`

	Libraries []manifestLibrary `json:"libraries"`

	// Rights are the commands that clients send by themselves, by the client's name.
	Rights map[string]manifestRights `json:"rights"`
}

type manifestRights struct {
	Single  []string `json:"single"`
	Cluster []string `json:"cluster"`
}

// manifestLibrary is a library of Redis Functions.
type manifestLibrary struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	SHA1   string `json:"sha1"`
	SHA256 string `json:"sha256"`
	Redis  string `json:"redis"`
}

// manifestFunction is a script as a function.
type manifestFunction struct {
	Library string `json:"library"`
	Name    string `json:"name"`
	Look    string `json:"look,omitempty"`
}

// keyRules say how a key is made. What Words does not name may be any bytes.
type keyRules struct {
	Pattern string            `json:"pattern"`
	Words   map[string]string `json:"words"` // a regular expression for each
	Escape  map[string]string `json:"escape"`
	Escaped []string          `json:"escaped"`
}

type manifestScript struct {
	Name       string          `json:"name"`
	Version    int             `json:"version"`
	File       string          `json:"file"`
	SHA1       string          `json:"sha1"`
	SHA256     string          `json:"sha256"`
	About      string          `json:"about"`
	Keys       []manifestKey   `json:"keys"` // those that are not repeated: in KEYS behind the group's
	Arguments  []manifestField `json:"arguments"`
	Reply      []manifestField `json:"reply"`
	Group      *manifestGroup  `json:"group,omitempty"`
	Rules      []rule          `json:"rules"`
	Errors     []errorCode     `json:"errors"`
	Commands   []string        `json:"commands"`
	State      string          `json:"state"`
	Layout     string          `json:"layout"`
	Complexity string          `json:"complexity"`
	Cost       string          `json:"cost"`
	Redis      string          `json:"redis"`

	Function manifestFunction `json:"function"`

	// Companions are the scripts for the same keys, by what they do: "return", "settle", "release", "set", "many".
	Companions map[string]string `json:"companions"`
}

// manifestKey is a key. State and Parts are the end of its pattern, word by word.
type manifestKey struct {
	Name    string   `json:"name"`
	Pattern string   `json:"pattern"`
	State   string   `json:"state"`
	Parts   []string `json:"parts"`
}

// rule is what BADARG says of an argument beside its own range. UpTo is the argument that is its maximum: of each pair,
// if it ends in _i. Without is a text that it may not contain.
type rule struct {
	Argument string `json:"argument"`
	Want     string `json:"want"`
	UpTo     string `json:"up_to,omitempty"`
	Without  string `json:"without,omitempty"`
}

type manifestField struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Min  int64  `json:"min"`
	Max  *int64 `json:"max,omitempty"`
	Text string `json:"text"`
}

// A manifestGroup holds the repeated keys, arguments and replies. They occur min to max times. A group inside the group
// of subjects has its keys for each subject, arguments that are the same for all subjects, and replies that follow the
// other replies of each subject.
type manifestGroup struct {
	Name      string          `json:"name"`
	Min       int64           `json:"min"`
	Max       int64           `json:"max"`
	Keys      []manifestKey   `json:"keys,omitempty"`
	Arguments []manifestField `json:"arguments"`
	Reply     []manifestField `json:"reply"`
	Group     *manifestGroup  `json:"group,omitempty"`
}

var types = map[string]string{
	"int":  "an integer; as an argument, 1 to 16 decimal digits",
	"us":   "an int: a duration in microseconds",
	"time": "an int: a time of the server's clock, in microseconds since 1970-01-01 UTC",
	"str":  "a string; min and max are its length in bytes",
}

var keys = keyRules{
	Pattern: "<prefix>:<limiter>:{<subject>}:<state>[:<part>]...",
	Words: map[string]string{
		"prefix": "^[A-Za-z0-9._-]+$", "limiter": "^[A-Za-z0-9._/-]+$", "subject": `^[\s\S]+$`,
	},
	Escape:  map[string]string{"%": "%25", "{": "%7B", "}": "%7D"},
	Escaped: []string{"subject", "part"},
}

func manifest(scripts []*script, libraries []library) []byte {
	file := manifestFile{Schema: "manifest.schema.json", Format: 1, Types: types, Key: keys,
		Rights: map[string]manifestRights{}}
	for _, client := range rights.Clients() {
		file.Rights[client.Name] = manifestRights{client.Single, client.Cluster}
	}
	for _, s := range scripts {
		m := manifestOf(s)
		m.Companions = companions(s, scripts)
		in := slices.IndexFunc(libraries, func(l library) bool { return l.has(s) })
		m.Function = manifestFunction{libraries[in].Name, s.ID(), s.Look()}
		file.Scripts = append(file.Scripts, m)
	}
	for _, l := range libraries {
		file.Libraries = append(file.Libraries,
			manifestLibrary{l.Name, l.File(), l.SHA1(), sha256Hex([]byte(l.Source)), "7.0"})
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
		Name: s.Name, Version: s.Version, File: s.File(), SHA1: s.SHA1(), SHA256: sha256Hex([]byte(s.Source)),
		About: s.Prose(), Keys: manifestKeys(s.Keys), Rules: rules(s), Errors: s.Errors,
		Arguments: manifestFields(plain(s.Args)), Reply: manifestFields(common(s.Reply)),
		Commands: s.Commands, State: s.State(), Layout: s.Layout(),
		Complexity: s.Cost.Order, Cost: s.Cost.Text, Redis: s.Redis,
	}
	if g := s.Group; g != nil {
		m.Group = &manifestGroup{Name: g.Name, Min: g.Min, Max: g.Max, Keys: m.Keys[:1],
			Arguments: manifestFields(repeated(s.Args)), Reply: manifestFields(repeated(s.Reply))}
		m.Keys = m.Keys[1:]
	}
	if g := s.KeyGroup; g != nil {
		m.Group = &manifestGroup{Name: g.Name, Min: g.Min, Max: g.Max, Keys: m.Keys, Arguments: []manifestField{},
			Reply: manifestFields(ofSubjects(plain(s.Reply))), Group: m.Group}
		m.Keys = []manifestKey{}
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

func manifestKeys(keys []key) []manifestKey {
	found := make([]manifestKey, len(keys))
	for i, k := range keys {
		_, end, _ := strings.Cut(k.Pattern, "}:")
		words := strings.Split(end, ":")
		found[i] = manifestKey{k.Name, k.Pattern, words[0], words[1:]}
	}
	return found
}

var (
	badArgument = regexp.MustCompile(`"BADARG ([a-z_]+): want ([^"]+)"`)
	ownRange    = regexp.MustCompile(`^[0-9]+\.\.[0-9]+$`)
	withoutText = regexp.MustCompile(`without (\S+)$`)
)

// rules finds what the body refuses beside the ranges of the header.
func rules(s *script) []rule {
	found := []rule{}
	for _, match := range badArgument.FindAllStringSubmatch(s.Source, -1) {
		r := rule{Argument: match[1], Want: match[2], UpTo: maximum(s, match[2])}
		if without := withoutText.FindStringSubmatch(r.Want); without != nil {
			r.Without = without[1]
		}
		if !ownRange.MatchString(r.Want) && !slices.Contains(found, r) {
			found = append(found, r)
		}
	}
	return found
}

// maximum returns the argument that "up to limit" or "up to every limit" names, or "".
func maximum(s *script, want string) string {
	name, ok := strings.CutPrefix(want, "up to ")
	if every, pairs := strings.CutPrefix(name, "every "); pairs {
		name = every + "_i"
	}
	if !ok || !slices.ContainsFunc(s.Args, func(f field) bool { return f.Name == name }) {
		return ""
	}
	return name
}

// companions returns the scripts whose name is that of s and a word for what they do.
func companions(s *script, scripts []*script) map[string]string {
	found := map[string]string{}
	for _, other := range scripts {
		if does, ok := strings.CutPrefix(other.Name, s.Name+"_"); ok && other.Version == s.Version {
			found[does] = other.ID()
		}
	}
	return found
}
