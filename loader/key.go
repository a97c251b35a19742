package loader

import (
	"strconv"
	"strings"
)

// The codes of the scripts, each with the number of its stored layout, as they stand in keys.
const (
	codeListLog     = "ll1"
	codeZSetLog     = "zl1"
	codeGCRA        = "gcra1"
	codeTokenBucket = "tb1"
	codeSliceRing   = "sr1"
)

// Key is the key under which a script keeps its state for a subject:
//
//	<prefix>:<limiter>:{<subject>}:<state>[:<part>]...
//
// State is the script's code and the number of its layout: "ll1", "zl1", "gcra1", "tb1" or "sr1".
// Parts come behind it: the slice length in microseconds for sr1, and then, if there is one, the age of leases; "all",
// or "by" and a client, for the permits of tb1.
//
// Prefix and limiter are of letters, digits, dot, underscore and dash, the limiter of slashes too, so that a route or a
// gRPC method is a name ("orders.v1.Orders/Create"). In a subject and in parts "%",
// "{" and "}" are written %25, %7B and %7D, so that the subject alone is the hash tag and a
// limiter's keys are in one slot. Empty ones, parts apart, are an *ArgumentError. testdata/keys.json has
// vectors for other languages.
func Key(prefix, limiter, subject, state string, parts ...string) (string, error) {
	if err := checkNames(prefix, limiter); err != nil {
		return "", err
	}
	if err := checkName(limiter, "state", state); err != nil {
		return "", err
	}
	if subject == "" {
		return "", errEmptySubject(limiter)
	}
	var b strings.Builder
	b.WriteString(prefix + ":" + limiter + ":{" + escape(subject) + "}:" + state)
	for _, part := range parts {
		b.WriteString(":" + escape(part))
	}
	return b.String(), nil
}

// key is the subject's key, if nothing is wrong with it or with the limiter.
func (c core) key(subject string) (string, error) {
	switch {
	case c.settings == nil:
		return "", &ArgumentError{Argument: "limiter", Want: "one that a method of Loader made"}
	case c.err != nil:
		return "", c.err
	case c.limitErr != nil:
		return "", c.limitErr
	case c.idErr != nil:
		return "", c.idErr
	case subject == "":
		return "", errEmptySubject(c.name)
	}
	return c.head + escape(subject) + c.tail, nil
}

func checkNames(prefix, limiter string) error {
	if err := checkName(limiter, "prefix", prefix); err != nil {
		return err
	}
	return checkName("", "limiter", limiter)
}

// checkName is what is wrong with a part of a limiter's keys.
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

// escape writes the characters that Redis Cluster reads in keys, and the escape itself, as %XX.
func escape(text string) string {
	if !strings.ContainsAny(text, "%{}") {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		switch text[i] {
		case '%':
			b.WriteString("%25")
		case '{':
			b.WriteString("%7B")
		case '}':
			b.WriteString("%7D")
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String()
}
