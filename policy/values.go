package policy

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/sluice-redis/sluice/internal/admit"
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

// hostOf is a host as servers compare it: in lower case, without the dot that ends a full name. A port stays.
func hostOf(text string) string {
	text = strings.ToLower(text)
	if name, port, found := strings.Cut(text, ".:"); found {
		return name + ":" + port
	}
	return strings.TrimSuffix(text, ".")
}

// text is the value of a variable that is a text.
func (v *values) text(name string) (text string) {
	switch name {
	case "request.method":
		text = v.Request.Method
	case "request.path":
		text = v.Request.Path
	case "request.host":
		text = hostOf(v.Request.Host)
	case "request.ip":
		text = v.Request.IP
	case "domain":
		text = v.Descriptor.Domain
	case "keys":
		text = v.Descriptor.keys()
	default:
		text = v.Values[name]
	}
	if len(text) > maxText {
		return v.tooLong(name, text)
	}
	return text
}

// needed is text, and remembers if it is empty that is not for the client to leave out.
func (v *values) needed(name string) string {
	text := v.text(name)
	if text == "" && v.missing == "" && name != "request.host" {
		v.missing = name
	}
	return text
}

// at is the value of a key of a header, a query, a cookie or a descriptor. It fails where the client sent several, or a
// query that cannot be read: an application may take another one.
func (v *values) at(name, key string) (text string, found bool) {
	var texts []string
	switch name {
	case "request.header":
		texts = v.Request.Header[http.CanonicalHeaderKey(key)]
	case "request.query":
		texts = v.Request.Query[key]
		if err := v.Request.queryErr; err != nil {
			v.fail(&clientError{err})
		}
	case "request.cookie":
		texts = v.Request.Cookie[key]
	case "descriptor":
		text, found = v.Descriptor.value(key)
	}
	for i, next := range texts {
		if i > 0 && next != text {
			v.fail(&clientError{fmt.Errorf("%s[%.100q] has several values", name, key)})
		}
		text, found = next, true
	}
	if len(text) > maxText {
		return v.tooLong(name, text), found
	}
	return text, found
}

// tooLong refuses a text on which an expression could spend more than was estimated.
func (v *values) tooLong(name, text string) string {
	err := fmt.Errorf("%s has %d bytes: want at most %d", name, len(text), maxText)
	if isOfCaller(name) {
		err = &clientError{err}
	}
	v.fail(err)
	return ""
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

func (t *textValues) Equal(v ref.Val) ref.Val   { return types.Bool(v == ref.Val(t)) }
func (t *textValues) Iterator() traits.Iterator { return nil }
func (t *textValues) Size() ref.Val             { return types.IntOne }
func (t *textValues) Type() ref.Type            { return types.MapType }
func (t *textValues) Value() any                { return t }

// clientError is an error of an expression that the client's request caused.
type clientError struct{ error }

func (e *clientError) Unwrap() error { return e.error }

// blame returns an error of the expression: the client's if the expression asks for nothing but the request, or
// a descriptor.
func (e *expression) blame(err error) error {
	if len(e.names) == 0 {
		return err
	}
	for _, name := range e.names {
		if !isOfCaller(name) {
			return err
		}
	}
	return &clientError{err}
}

// isOfCaller reports whether a variable is a request's or a descriptor's.
func isOfCaller(name string) bool {
	isName := func(v variable) bool { return v.name == name }
	return slices.ContainsFunc(requestVariables, isName) || slices.ContainsFunc(descriptorVariables, isName)
}

// run computes an expression.
func (e *expression) run(v *values) (ref.Val, error) {
	result, _, err := e.program.Eval(v)
	if err = cmp.Or(v.err, err); err != nil {
		return nil, e.blame(err)
	}
	return result, nil
}

// text computes an expression that is a text.
func (e *expression) text(v *values) (string, error) {
	if e.plain != nil {
		text := e.plain(v)
		if v.err != nil {
			return "", e.blame(v.err)
		}
		return text, nil
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

// networkOf is the key of an address: an IPv4 address as it is, of IPv6 the prefix of so many bits. IPv4-mapped
// addresses become IPv4, a zone is dropped. The empty address stays empty.
func networkOf(address string, bits int) (string, error) {
	if address == "" {
		return "", nil
	}
	a, err := netip.ParseAddr(address[:min(len(address), 64)])
	if err != nil {
		return "", fmt.Errorf("ip(%.64q): not an address", address)
	}
	if bits < 1 || bits > 128 {
		return "", fmt.Errorf("ip(.., %d): want a prefix of 1 to 128 bits", bits)
	}
	return admit.Network(a.Unmap().WithZone(""), bits), nil
}
