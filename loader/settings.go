package loader

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// LimiterOption is an option of a limiter, given once. If it does not apply to the limiter, every call returns an
// *ArgumentError. Nil does nothing.
type LimiterOption func(*settings)

// MaxWait bounds how far ahead Wait and Reserve book, and how long Wait sleeps in all, in whole microseconds. With 0,
// the default, Wait takes as long as its context allows, and Reserve books up to 60 s ahead.
func MaxWait(d time.Duration) LimiterOption {
	return func(s *settings) {
		s.once("MaxWait")
		s.maxWait = d
		if d < 0 || d%time.Microsecond != 0 {
			s.setErr(s.errArgument("MaxWait", d, "whole microseconds, 0 or more"))
		}
	}
}

// settings is what all copies of a limiter share. It does not change after configure.
type settings struct {
	loader     *Loader
	algorithm  *algorithm
	name       string
	head       string // of the key, before the subject
	tail       string // of the key, after the subject
	scriptName string // for observers
	maxWait    time.Duration
	slice      time.Duration
	idTTL      time.Duration                  // how long a Budget knows an id
	enforced   func([]Limit) ([]Limit, error) // the limits that a strict Ahead leaves; nil: as they are
	denials    *denials                       // nil: no RememberDenials
	timeout    time.Duration                  // of one call
	clientID   string
	perClient  bool
	fallback   fallback // nil: none
	answers    string   // the option that set the fallback
	given      []string // the options
	err        error    // what is wrong with the name or the options: the error of every call
}

// requireAlgorithm sets an error if an option is not of this algorithm.
func (s *settings) requireAlgorithm(option string, k *algorithm) {
	if s.algorithm != k {
		s.setErr(&ArgumentError{
			Limiter: s.name, Argument: option, Want: "a " + k.name,
			text: fmt.Sprintf("%s is an option of %s, not of %s", option, k.name, s.algorithm.name),
		})
	}
}

// errArgument is the error of a wrong name, limit or option.
func (s *settings) errArgument(argument string, value any, want string) error {
	return &ArgumentError{Limiter: s.name, Argument: argument, Value: fmt.Sprint(value), Want: want}
}

// once sets an error if the option was given before, because only one of them could hold, or if nothing would use it.
func (s *settings) once(option string) {
	if slices.Contains(s.given, option) {
		s.setErr(s.errArgument(option, "twice", "each option once"))
	}
	s.given = append(s.given, option)
	if slices.Contains(s.algorithm.unused, option) {
		s.setErr(&ArgumentError{
			Limiter: s.name, Argument: option, Want: "no " + option,
			text: fmt.Sprintf("%s is not an option of %s", option, s.algorithm.name),
		})
	}
}

// setFallback sets the fallback. Two of them are an error.
func (s *settings) setFallback(option string, answer fallback) {
	s.once(option)
	if s.answers != "" && s.answers != option {
		s.setErr(s.errArgument(s.answers, "with "+option, "one of the two"))
	}
	s.answers, s.fallback = option, answer
}

// setErr keeps the first error.
func (s *settings) setErr(err error) {
	if s.err == nil {
		s.err = err
	}
}

// configure makes the settings of a limiter. The caller may add parts to the tail of the key.
func (l *Loader) configure(k *algorithm, name string, opts []LimiterOption) *settings {
	s := &settings{loader: l, algorithm: k, name: name, scriptName: wire.NameOf(k.script)}
	for _, opt := range opts {
		if opt != nil {
			opt(s)
		}
	}
	if s.clientID == "" {
		s.clientID = l.clientID
	}
	s.timeout = l.timeout
	if s.fallback != nil {
		s.timeout = l.fallbackTimeout
	}
	if l.err != nil {
		s.setErr(l.err)
	}
	if err := checkNames(l.prefix, name); err != nil {
		s.setErr(err)
	}
	s.head = strings.Join([]string{l.prefix, name, "{"}, ":")
	s.tail = "}:" + k.code
	return s
}
