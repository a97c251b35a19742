package loader

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// word returns the i-th argument of Call as it is sent. A type that go-redis would write in a form that scripts misread
// is an *ArgumentError.
func word(script *sluice.Script, i int, arg any) (any, error) {
	field, ok := argumentAt(script, i)
	if !ok { // the script says so
		return arg, nil
	}
	switch v := arg.(type) {
	case string, []byte, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return arg, nil
	case time.Duration:
		if field.Type == "us" {
			return microseconds(script, field.Name, v)
		}
	case time.Time:
		if field.Type == "time" {
			return unixMicroseconds(script, field.Name, v)
		}
	}
	want := fmt.Sprintf("%s, not %T", goTypes(field), arg)
	return nil, &ArgumentError{Script: nameOf(script), Argument: field.Name, Want: want}
}

// goTypes names the Go types that an argument may have, for errors.
func goTypes(field sluice.Field) string {
	switch field.Type {
	case "us":
		return "an integer, a string or a time.Duration"
	case "time":
		return "an integer, a string or a time.Time"
	}
	return "an integer or a string"
}

// argumentAt returns what the header says of the i-th argument, if there is one. Repeated ones have their number in the
// name.
func argumentAt(script *sluice.Script, i int) (field sluice.Field, ok bool) {
	if i < len(script.Args) && !script.Args[i].Repeated {
		return script.Args[i], true
	}
	group := script.Args
	for len(group) > 0 && !group[0].Repeated {
		group, i = group[1:], i-1
	}
	if len(group) == 0 {
		return sluice.Field{}, false
	}
	field = group[i%len(group)]
	field.Name = strings.TrimSuffix(field.Name, "i") + strconv.Itoa(i/len(group)+1)
	return field, true
}

// microseconds returns d in microseconds. A fraction of one is an *ArgumentError: it is not rounded.
func microseconds(script *sluice.Script, name string, d time.Duration) (int64, error) {
	if d%time.Microsecond != 0 {
		return 0, errFraction(script, name, d)
	}
	return d.Microseconds(), nil
}

// unixMicroseconds returns t in microseconds since 1970. A fraction of one is an *ArgumentError.
func unixMicroseconds(script *sluice.Script, name string, t time.Time) (int64, error) {
	if t.Nanosecond()%int(time.Microsecond) != 0 {
		return 0, errFraction(script, name, t.Round(0)) // without the monotonic clock
	}
	return t.UnixMicro(), nil
}

func errFraction(script *sluice.Script, name string, value fmt.Stringer) error {
	want := "whole microseconds, not " + value.String()
	return &ArgumentError{Script: nameOf(script), Argument: name, Want: want}
}
