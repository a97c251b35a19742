package model

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice"
)

// arguments are those of a call by their names in the header: of repeated ones limit_1, limit_2 and so on.
type arguments struct {
	number map[string]int64
	text   map[string]string
	groups int
}

// read holds the arguments against the script's header, and returns the error of the first that is not in
// its range.
func read(script *sluice.Script, keys, args []string) (a arguments, bad string) {
	if len(keys) != len(script.Keys) {
		return a, fmt.Sprintf("BADARG KEYS: want %d", len(script.Keys))
	}
	var once, repeated []sluice.Field
	for _, field := range script.Args {
		if field.Repeated {
			repeated = append(repeated, field)
		} else {
			once = append(once, field)
		}
	}
	if a.groups, bad = groups(script, len(once), len(repeated), len(args)); bad != "" {
		return a, bad
	}
	a.number, a.text = map[string]int64{}, map[string]string{}
	for i, text := range args {
		field := sluice.Field{}
		if i < len(once) {
			field = once[i]
		} else {
			field = repeated[(i-len(once))%len(repeated)]
			field.Name = strings.TrimSuffix(field.Name, "i") + strconv.Itoa((i-len(once))/len(repeated)+1)
		}
		if bad := a.take(field, text); bad != "" {
			return a, bad
		}
	}
	return a, ""
}

// groups is how often the repeated arguments come.
func groups(script *sluice.Script, once, repeated, args int) (n int, bad string) {
	if script.Group == nil {
		if args != once {
			return 0, fmt.Sprintf("BADARG ARGV: want %d", once)
		}
		return 0, ""
	}
	n = (args - once) / repeated
	if args != once+n*repeated || n < script.Group.Min || n > script.Group.Max {
		return 0, fmt.Sprintf("BADARG ARGV: want %d and %d to %d times %d", once, script.Group.Min, script.Group.Max, repeated)
	}
	return n, ""
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
