package model

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/sluice-redis/sluice"
)

// arguments are those of a call by their names, as in Fields.
type arguments struct {
	number map[string]int64
	text   map[string]string
	groups int
}

// read holds the arguments against the script's header, and returns the error of the first that is not in
// its range.
func read(script *sluice.Script, keys, args []string) (a arguments, bad string) {
	if group := script.KeyGroup; group != nil && (len(keys) < group.Min || len(keys) > group.Max) {
		return a, fmt.Sprintf("BADARG KEYS: want %d to %d", group.Min, group.Max)
	} else if group == nil && len(keys) != len(script.Keys) {
		return a, fmt.Sprintf("BADARG KEYS: want %d", len(script.Keys))
	}
	least := len(Fields(script, len(keys), 0))
	if group := script.Group; group != nil {
		a.groups = (len(args) - least) / (len(Fields(script, len(keys), 1)) - least)
		if a.groups < group.Min || a.groups > group.Max {
			return a, WantedArgs(script)
		}
	}
	fields := Fields(script, len(keys), a.groups)
	if len(args) != len(fields) {
		return a, WantedArgs(script)
	}
	a.number, a.text = map[string]int64{}, map[string]string{}
	for i, text := range args {
		if bad := a.take(fields[i], text); bad != "" {
			return a, bad
		}
	}
	return a, ""
}

// Fields are the arguments of a call for so many keys one by one. The names of repeated ones end in a number: those of
// each key are reported_1, reported_2 and so on, and then those of a group slice_1, size_1, limit_1, slice_2 and so on.
func Fields(script *sluice.Script, keys, groups int) (fields []sluice.Field) {
	for _, come := range []struct {
		ending string
		times  int
	}{{"", 1}, {"_k", keys}, {"_i", groups}} {
		for n := range come.times {
			for _, field := range script.Args {
				name, ends := strings.CutSuffix(field.Name, come.ending)
				if !ends || field.Repeated != (come.ending != "") {
					continue
				}
				if field.Repeated {
					field.Name = fmt.Sprintf("%s_%d", name, n+1)
				}
				fields = append(fields, field)
			}
		}
	}
	return fields
}

// WantedArgs is the error of a call with another number of arguments.
func WantedArgs(script *sluice.Script) string {
	var names, each []string
	for _, field := range script.Args {
		switch {
		case !field.Repeated:
			names = append(names, field.Name)
		case strings.HasSuffix(field.Name, "_k"):
			names = append(names, "each key's "+strings.TrimSuffix(field.Name, "_k"))
		default:
			each = append(each, strings.TrimSuffix(field.Name, "_i"))
		}
	}
	if len(each) == 0 {
		return fmt.Sprintf("BADARG ARGV: want %d", len(names))
	}
	return fmt.Sprintf("BADARG ARGV: want %s, then %s of %d..%d windows",
		strings.Join(names, ", "), strings.Join(each, ", "), script.Group.Min, script.Group.Max)
}

var digits = regexp.MustCompile(`\A[0-9]{1,16}\z`)

func (a arguments) take(field sluice.Field, text string) (bad string) {
	if field.Type == "str" {
		a.text[field.Name] = text
		missing := text == "" && a.number["permits"] > 0 // only a look may leave it empty
		if missing || !TextFits(field, text) {
			return fmt.Sprintf("BADARG %s: want %s", field.Name, Wanted(field))
		}
		return ""
	}
	n, ok := decimal(text, field.Min, field.Max)
	if !ok {
		return fmt.Sprintf("BADARG %s: want %s", field.Name, Wanted(field))
	}
	a.number[field.Name] = n
	return ""
}

// Wanted is what a script's error says that it wants of an argument.
func Wanted(field sluice.Field) string {
	switch {
	case field.Type != "str":
		return fmt.Sprintf("%d..%d", field.Min, field.Max)
	case withoutBar(field):
		return fmt.Sprintf("1 to %d bytes without |", field.Max) // 0 bytes only to look
	case field.Min == 0:
		return fmt.Sprintf("up to %d bytes", field.Max)
	}
	return fmt.Sprintf("%d to %d bytes", field.Min, field.Max)
}

// TextFits reports whether a text is in the range of an argument of type str.
func TextFits(field sluice.Field, text string) bool {
	n := int64(len(text))
	return n >= field.Min && n <= field.Max && !(withoutBar(field) && strings.Contains(text, "|"))
}

// withoutBar reports whether a text must not contain "|", which the header says in words.
func withoutBar(field sluice.Field) bool { return strings.Contains(field.Text, `without "|"`) }

// decimal reads up to sixteen digits.
func decimal(text string, least, most int64) (n int64, ok bool) {
	if !digits.MatchString(text) {
		return 0, false
	}
	n = number(text)
	return n, n >= least && n <= most
}
