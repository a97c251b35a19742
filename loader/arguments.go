package loader

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// word returns the i-th argument of Call as it is sent. A type that go-redis would write in a form that scripts misread
// is an *ArgumentError, and so is a time with a fraction of a microsecond: it is not rounded.
func word(script *sluice.Script, i int, arg any) (any, error) {
	field, ok := argumentAt(script, i)
	if !ok { // the script says so
		return arg, nil
	}
	var want string
	switch v := arg.(type) {
	case string, []byte, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return arg, nil
	case time.Duration:
		switch {
		case field.Type != "us":
		case v%time.Microsecond == 0:
			return v.Microseconds(), nil
		default:
			want = "whole microseconds, not " + v.String()
		}
	case time.Time:
		switch {
		case field.Type != "time":
		case v.Nanosecond()%int(time.Microsecond) == 0:
			return v.UnixMicro(), nil
		default:
			want = "whole microseconds, not " + v.Round(0).String() // without the monotonic clock
		}
	}
	if want == "" {
		want = fmt.Sprintf("%s, not %T", goTypes(field), arg)
	}
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
