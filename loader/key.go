package loader

import (
	"fmt"
	"strconv"
	"strings"
)

// The codes of the scripts in keys, each with the number of its stored layout.
const (
	codeListLog     = "ll1"
	codeZSetLog     = "zl1"
	codeGCRA        = "gcra1"
	codeTokenBucket = "tb1"
	codeSliceRing   = "sr1"
	codeBudgetID    = "bg1" // the ids of a Budget, whose counts are under sr1
	codeConcurrency = "cc1"
	codeQuota       = "qt1"
)

// Key returns the key under which a script keeps its state for a subject. Use it to inspect or delete keys:
//
//	<prefix>:<limiter>:{<subject>}:<state>[:<part>]...
//
// State is the script's code and the number of its layout: "ll1", "zl1", "gcra1", "tb1", "sr1", "bg1", "cc1" or
// "qt1". The part of sr1 is a window, "300000x201" for 201 slices of 300000 us; of bg1 an id of a Budget; of tb1 "all",
// or "by" and a client, for the permits (its config has none).
//
// Prefix and limiter have letters, digits, dot, underscore and dash; the limiter may also have slashes. In a subject
// and in parts "%", "{" and "}" are written %25, %7B and %7D: all keys of a limiter for one subject are in one slot. An
// empty prefix, limiter, subject or state is an *ArgumentError, and so is a subject of more than 64 KiB.
// scripts/keys.json has test vectors. Cost: nothing is sent.
func Key(prefix, limiter, subject, state string, parts ...string) (string, error) {
	if err := checkNames(prefix, limiter); err != nil {
		return "", err
	}
	if err := checkName(limiter, "state", state); err != nil {
		return "", err
	}
	if len(subject) < 1 || len(subject) > maxSubjectBytes {
		return "", errSubject(limiter, subject)
	}
	var b strings.Builder
	b.WriteString(prefix + ":" + limiter + ":{" + escaper.Replace(subject) + "}:" + state)
	for _, part := range parts {
		b.WriteString(":" + escaper.Replace(part))
	}
	return b.String(), nil
}

// maxSubjectBytes bounds the size of a subject, because all of its keys have it.
const maxSubjectBytes = 65536

// errSubject is the error of a subject that is empty or too long.
func errSubject(limiter, subject string) error {
	value, want := fmt.Sprintf("of %d bytes", len(subject)), fmt.Sprintf("1 to %d bytes", maxSubjectBytes)
	return &ArgumentError{Limiter: limiter, Argument: "subject", Value: value, Want: want}
}

func checkNames(prefix, limiter string) error {
	if err := checkName(limiter, "prefix", prefix); err != nil {
		return err
	}
	return checkName("", "limiter", limiter)
}

// checkName checks one part of a limiter's keys.
func checkName(limiter, argument, name string) error {
	allowed, want := name, "letters, digits, dot, underscore and dash, at least one"
	if argument == "limiter" {
		allowed = strings.ReplaceAll(name, "/", "")
		want = "letters, digits, dot, underscore, dash and slash, at least one"
	}
	if name != "" && !strings.ContainsFunc(allowed, forbidden) {
		return nil
	}
	return &ArgumentError{Limiter: limiter, Argument: argument, Value: strconv.Quote(name), Want: want}
}

func forbidden(r rune) bool {
	switch {
	case 'A' <= r && r <= 'Z', 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		return false
	}
	return r != '.' && r != '_' && r != '-'
}

// escaper writes "%" and the characters that Redis Cluster reads in keys as %XX.
var escaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
