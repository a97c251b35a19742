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
	least, most := keyBounds(script)
	if len(keys) < least || len(keys) > most {
		return a, WantedKeys(script)
	}
	alone := len(Fields(script, 0))
	if group := script.Group; group != nil {
		a.groups = len(keys) - least + 1
		if script.KeyGroup != nil {
			a.groups = (len(args) - alone) / (len(Fields(script, 1)) - alone)
		}
		if a.groups < group.Min || a.groups > group.Max {
			return a, WantedArgs(script)
		}
	}
	fields := Fields(script, a.groups)
	if len(args) != len(fields) {
		return a, WantedArgs(script)
	}
	if script.KeyGroup != nil && script.Group != nil && len(keys)%a.groups > 0 {
		return a, "BADARG KEYS: want one for each window of each subject"
	}
	a.number, a.text = map[string]int64{}, map[string]string{}
	for i, text := range args {
		if bad := a.take(fields[i], text); bad != "" {
			return a, bad
		}
	}
	return a, ""
}

// keyBounds are the least and the most keys of a call.
func keyBounds(script *sluice.Script) (least, most int) {
	switch {
	case script.KeyGroup != nil:
		return script.KeyGroup.Min, script.KeyGroup.Max
	case script.Group != nil:
		others := len(script.Keys) - 1
		return script.Group.Min + others, script.Group.Max + others
	}
	return len(script.Keys), len(script.Keys)
}

// WantedKeys is the error of a call with another number of keys.
func WantedKeys(script *sluice.Script) string {
	least, most := keyBounds(script)
	if least == most {
		return fmt.Sprintf("BADARG KEYS: want %d", least)
	}
	return fmt.Sprintf("BADARG KEYS: want %d to %d", least, most)
}

// Fields are the arguments of a call one by one. The names of those of a group end in a number: slice_1, size_1,
// limit_1, slice_2 and so on.
func Fields(script *sluice.Script, groups int) (fields []sluice.Field) {
	var each []sluice.Field
	for _, field := range script.Args {
		if field.Repeated {
			each = append(each, field)
		} else {
			fields = append(fields, field)
		}
	}
	for i := range groups {
		for _, field := range each {
			field.Name = fmt.Sprintf("%s_%d", strings.TrimSuffix(field.Name, "_i"), i+1)
			fields = append(fields, field)
		}
	}
	return fields
}

// WantedArgs is the error of a call with another number of arguments.
func WantedArgs(script *sluice.Script) string {
	var names, each []string
	for _, field := range script.Args {
		if field.Repeated {
			each = append(each, strings.TrimSuffix(field.Name, "_i"))
		} else {
			names = append(names, field.Name)
		}
	}
	if len(each) == 0 {
		return fmt.Sprintf("BADARG ARGV: want %d", len(names))
	}
	return fmt.Sprintf("BADARG ARGV: want %s, then %s for each window", strings.Join(names, ", "),
		strings.Join(each, ", "))
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
