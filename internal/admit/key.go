package admit

import (
	"cmp"
	"errors"
	"slices"
	"unicode/utf8"
)

// Key makes the subject of a limiter from a request of type R. The zero Key has no value for any request.
type Key[R any] struct {
	parts []keyPart[R]
	err   error
}

// keyPart is one value of a key.
type keyPart[R any] struct {
	known   string // if value is nil
	value   func(R) string
	fault   func(R) error // why it is not the request's that a value is empty; nil: it always is
	ifEmpty Empty
}

// Empty is what happens to a request that has no value for a Key: see Key.IfEmpty.
type Empty int

// The choices.
const (
	RefuseEmpty Empty = iota
	SkipEmpty
	ShareEmpty
)

// KeyBy counts by what a function returns; "" is no value.
func KeyBy[R any](value func(R) string) Key[R] {
	if value == nil {
		return WrongKey[R](errors.New("KeyBy: the function is nil"))
	}
	return Key[R]{parts: []keyPart[R]{{value: value}}}
}

// KeyByConnection counts by a value of the connection. Its error is why the server, not the request, is to be mended.
func KeyByConnection[R any](find func(R) (string, error)) Key[R] {
	value := func(r R) string { text, _ := find(r); return text }
	fault := func(r R) error { _, err := find(r); return err }
	return Key[R]{parts: []keyPart[R]{{value: value, fault: fault}}}
}

// WrongKey is a key with which no request goes on.
func WrongKey[R any](err error) Key[R] { return Key[R]{err: err} }

// KeyOf counts all requests under these values.
func KeyOf[R any](values ...string) Key[R] {
	key := Key[R]{parts: make([]keyPart[R], len(values))}
	for i, value := range values {
		key.parts[i].known = value
	}
	return key
}

// Join counts by several keys together. Each keeps its choice for an empty value; RefuseEmpty goes before SkipEmpty.
func Join[R any](keys ...Key[R]) Key[R] {
	var joined Key[R]
	for _, key := range keys {
		joined.parts = append(joined.parts, key.parts...)
		joined.err = errors.Join(joined.err, key.Check())
	}
	return joined
}

// IfEmpty returns the key with a choice of what happens to a request that has no value for it.
func (k Key[R]) IfEmpty(choice Empty) Key[R] {
	k.parts = slices.Clone(k.parts)
	for i := range k.parts {
		k.parts[i].ifEmpty = choice
	}
	if choice < RefuseEmpty || choice > ShareEmpty {
		k.err = errors.Join(k.err, errors.New("IfEmpty: want RefuseEmpty, SkipEmpty or ShareEmpty"))
	}
	return k
}

// Check returns what is wrong with the key.
func (k Key[R]) Check() error {
	if k.err == nil && len(k.parts) == 0 {
		return errors.New("the key is empty: want KeyByIP or another one")
	}
	return k.err
}

// faultOf returns why a request without a value is refused, if that is not the request's fault.
func (k Key[R]) faultOf(r R) (err error) {
	for _, part := range k.parts {
		if part.fault != nil && part.ifEmpty == RefuseEmpty {
			err = cmp.Or(err, part.fault(r))
		}
	}
	return err
}

// Subject returns the subject for a request. If the request is not to be counted, or is to be refused, the subject is
// "" and choice says which: SkipEmpty or RefuseEmpty.
func (k Key[R]) Subject(r R) (subject string, choice Empty) {
	if len(k.parts) == 0 {
		return "", RefuseEmpty
	}
	values := make([]string, 0, 4)
	choice = ShareEmpty
	for _, part := range k.parts {
		value := part.known
		if part.value != nil {
			value = part.value(r)
		}
		if value == "" || !utf8.ValidString(value) {
			value, choice = "", min(choice, part.ifEmpty)
		}
		values = append(values, value)
	}
	if choice != ShareEmpty {
		return "", choice
	}
	return Subject(values...), ShareEmpty
}
