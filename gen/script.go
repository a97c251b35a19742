package main

import (
	"crypto/sha1"
	"fmt"
	"slices"
	"strings"
)

// A script is what the generator knows of one: its header, and what its body calls.
type script struct {
	Name     string
	Version  int
	Source   string
	About    []string // prose, a line each
	Keys     []key
	Group    *group
	Args     []field
	Reply    []field
	Errors   []errorCode
	State    state
	Cost     cost
	Redis    string
	Commands []string // called by the body, sorted

	body int // the line on which the body begins
}

type key struct {
	Name, Pattern string
	at            place // of the pattern
}

// A group is what the pairs of arguments say, one pair after another.
type group struct {
	Name        string
	Least, Most int64
}

type field struct {
	Name, Type  string
	Least, Most int64 // Most is -1 where there is none
	Text        string
	Repeated    bool
	at          place // of the name
}

type errorCode struct {
	Name, Text string
	at         place
}

type state struct{ Code, Number, Layout string }

type cost struct{ Order, Text string }

func (s *script) id() string { return fmt.Sprintf("%s_v%d", s.Name, s.Version) }

func (s *script) File() string { return s.id() + ".lua" }

func (s *script) SHA1() string { return fmt.Sprintf("%x", sha1.Sum([]byte(s.Source))) }

func (s state) String() string { return s.Code + "/" + s.Number }

// Prose is what it is, in one line.
func (s *script) Prose() string { return strings.Join(s.About, " ") }

// FirstSentence is the first of the prose, without its stop.
func (s *script) FirstSentence() string {
	sentence, _, _ := strings.Cut(s.Prose()+" ", ". ")
	return sentence
}

// HasTimes tells whether a field is a moment or a length of time.
func (s *script) HasTimes() bool {
	return slices.ContainsFunc(slices.Concat(s.Args, s.Reply), func(f field) bool {
		return f.Type == "us" || f.Type == "time"
	})
}

// plain and repeated split fields into those that stand alone and those of the group.
func plain(fields []field) []field { return only(fields, false) }

func repeated(fields []field) []field { return only(fields, true) }

func only(fields []field, repeated bool) []field {
	var found []field
	for _, f := range fields {
		if f.Repeated == repeated {
			found = append(found, f)
		}
	}
	return found
}
