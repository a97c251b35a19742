package policy

import (
	"fmt"
	"net/http"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// values is the attributes as an expression asks for them, and what was found wrong with them on the way.
type values struct {
	Attributes
	header, query, cookie, descriptor textValues
	missing                           string // a value that the application or the connection should have, and was empty
	err                               error
}

func newValues(a Attributes) *values {
	v := &values{Attributes: a}
	v.header, v.query, v.cookie, v.descriptor = textValues{v, "request.header"}, textValues{v, "request.query"},
		textValues{v, "request.cookie"}, textValues{v, "descriptor"}
	return v
}

// fail keeps the first error.
func (v *values) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// text is the value of a variable that is a text.
func (v *values) text(name string) string {
	switch name {
	case "request.method":
		return v.bounded(name, v.Request.Method)
	case "request.path":
		return v.bounded(name, v.Request.Path)
	case "request.host":
		return v.bounded(name, v.Request.Host)
	case "request.ip":
		return v.bounded(name, v.Request.IP)
	case "domain":
		return v.bounded(name, v.Descriptor.Domain)
	case "keys":
		return v.bounded(name, v.Descriptor.keys())
	}
	return v.bounded(name, v.Values[name])
}

// needed is text, and remembers if it is empty that is not for the client to leave out.
func (v *values) needed(name string) string {
	text := v.text(name)
	if text == "" && v.missing == "" && name != "request.host" {
		v.missing = name
	}
	return text
}

// network is the key of an address.
func (v *values) network(address string, bits int) string {
	text, err := networkOf(address, bits)
	if err != nil {
		v.fail(err)
	}
	return text
}

// at is the first value of a key of a header, a query or a cookie, as the client sent it.
func (v *values) at(name, key string) (text string, found bool) {
	switch name {
	case "request.header":
		text, found = first(v.Request.Header[http.CanonicalHeaderKey(key)])
	case "request.query":
		text, found = first(v.Request.Query[key])
	case "request.cookie":
		text, found = v.Request.Cookie[key]
	case "descriptor":
		text, found = v.Descriptor.value(key)
	}
	return v.bounded(name, text), found
}

func first(texts []string) (string, bool) {
	if len(texts) == 0 {
		return "", false
	}
	return texts[0], true
}

// bounded refuses texts on which an expression could spend more than was estimated.
func (v *values) bounded(name, text string) string {
	if len(text) > maxText {
		v.fail(fmt.Errorf("%s has %d bytes: want at most %d", name, len(text), maxText))
		return ""
	}
	return text
}

// ResolveName is how CEL asks for a variable.
func (v *values) ResolveName(name string) (any, bool) {
	switch name {
	case nameStatus:
		return types.Int(v.Status), true
	case "hits":
		return types.Int(v.Descriptor.Hits), true
	case "descriptor":
		return &v.descriptor, true
	case "request.header":
		return &v.header, true
	case "request.query":
		return &v.query, true
	case "request.cookie":
		return &v.cookie, true
	}
	return types.String(v.text(name)), true
}

// Parent is nil: there are no other variables.
func (v *values) Parent() cel.Activation { return nil }

// textValues is a header, a query or the cookies as a map of CEL. A key that is not there has the value "".
type textValues struct {
	values *values
	name   string
}

var _ traits.Mapper = (*textValues)(nil)

func (t *textValues) Find(key ref.Val) (ref.Val, bool) {
	k, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	text, _ := t.values.at(t.name, string(k))
	return types.String(text), true
}

func (t *textValues) Get(key ref.Val) ref.Val {
	value, _ := t.Find(key)
	return value
}

func (t *textValues) Contains(key ref.Val) ref.Val {
	k, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	_, found := t.values.at(t.name, string(k))
	return types.Bool(found)
}

func (t *textValues) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s is no value by itself", t.name)
}

func (t *textValues) ConvertToType(ref.Type) ref.Val {
	return types.NewErr("%s is no value by itself", t.name)
}

func (t *textValues) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(t)) }
func (t *textValues) Iterator() traits.Iterator   { return nil }
func (t *textValues) Size() ref.Val               { return types.IntOne }
func (t *textValues) Type() ref.Type              { return types.MapType }
func (t *textValues) Value() any                  { return t }

// run computes an expression.
func (e *expression) run(v *values) (ref.Val, error) {
	result, _, err := e.program.Eval(v)
	if v.err != nil {
		return nil, v.err
	}
	return result, err
}

// text computes an expression that is a text.
func (e *expression) text(v *values) (string, error) {
	if e.plain != nil {
		text := e.plain(v)
		return text, v.err
	}
	result, err := e.run(v)
	if err != nil {
		return "", err
	}
	return string(result.(types.String)), nil
}

// number computes an expression that is a number.
func (e *expression) number(v *values) (int64, error) {
	result, err := e.run(v)
	if err != nil {
		return 0, err
	}
	return int64(result.(types.Int)), nil
}

// holds computes an expression that is true or false. No expression holds always.
func (e *expression) holds(v *values) (bool, error) {
	if e == nil {
		return true, nil
	}
	result, err := e.run(v)
	return err == nil && bool(result.(types.Bool)), err
}
