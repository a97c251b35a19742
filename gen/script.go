package main

import (
	"crypto/sha1"
	"fmt"
	"strings"
)

// A script holds what the generator knows about a script: its header, and the commands that its body calls.
type script struct {
	Name     string
	Version  int
	Source   string
	About    []string // lines of prose
	Keys     []key
	KeyGroup *group // of a script for many keys: its subjects
	Group    *group
	Args     []field // those of the group last
	Reply    []field // those of each subject last, those of the group behind them
	Errors   []errorCode
	States   []state
	Cost     cost
	Redis    string
	Commands []string // called by the body, sorted

	rows  map[string][]string // the rows of the header by their word, as they are written
	body  int                 // the line on which the body begins
	parts []*part             // printed into the body; arguments first
}

type key struct {
	Name, Pattern string
	Repeated      bool  // there is one for each member of the group, or for each subject
	at            place // of the pattern
}

type group struct {
	Name     string
	Min, Max int64
}

type field struct {
	Name, Type string
	Min, Max   int64 // Max is -1 if there is no upper bound
	Text       string
	Repeated   bool  // there is one for each member of the group
	Each       bool  // of a reply: there is one for each subject
	at         place // of the name
}

type errorCode struct {
	Name string `json:"code"`
	Text string `json:"text"`
	at   place
}

type state struct{ Code, Number, Layout string }

type cost struct{ Order, Text string }

// ID returns the name of the file without its ending.
func (s *script) ID() string { return fmt.Sprintf("%s_v%d", s.Name, s.Version) }

func (s *script) File() string { return s.ID() + ".lua" }

func (s *script) SHA1() string { return fmt.Sprintf("%x", sha1.Sum([]byte(s.Source))) }

func (s state) String() string { return s.Code + "/" + s.Number }

// State returns the names of the stored layouts.
func (s *script) State() string { return s.joined(", ", state.String) }

// Layout returns what is stored under each.
func (s *script) Layout() string { return s.joined("; ", func(one state) string { return one.Layout }) }

func (s *script) joined(between string, text func(state) string) string {
	var texts []string
	for _, one := range s.States {
		texts = append(texts, text(one))
	}
	return strings.Join(texts, between)
}

func (s *script) Prose() string { return strings.Join(s.About, " ") }

// FirstSentence returns the first sentence of the prose, without its full stop.
func (s *script) FirstSentence() string {
	sentence, _, _ := strings.Cut(s.Prose()+" ", ". ")
	return sentence
}

// plain and repeated return the fields outside the group and those in it.
func plain(fields []field) []field { return where(fields, func(f field) bool { return !f.Repeated }) }

func repeated(fields []field) []field { return where(fields, func(f field) bool { return f.Repeated }) }

// common and ofSubjects return the fields of a reply that come once, and those that come for each subject.
func common(fields []field) []field {
	return where(fields, func(f field) bool { return !f.Each && !f.Repeated })
}

func ofSubjects(fields []field) []field { return where(fields, func(f field) bool { return f.Each }) }

func where(fields []field, wanted func(field) bool) []field {
	var found []field
	for _, f := range fields {
		if wanted(f) {
			found = append(found, f)
		}
	}
	return found
}

func keyNames(s *script) []string {
	var names []string
	for _, k := range s.Keys {
		names = append(names, k.Name)
	}
	return names
}

// argNames returns the names that share the struct of arguments.
func argNames(s *script) []string {
	names := append(keyNames(s), fieldNames(s.Args)...)
	if s.Group != nil {
		names = append(names, s.Group.Name+"s")
	}
	return names
}

func fieldNames(fields []field) []string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}
