package main

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"strings"
	"text/template"
	"time"
)

//go:embed scripts.tmpl binding.tmpl many.tmpl functions.tmpl
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"names":   func(s *script) names { return names{s} },
	"plain":   plain,
	"inGroup": inGroup,
	"ofKeys":  ofKeys,
	"wrap":    wrap,
	"extent":  extent,
	"value":   func(f field, from string, at int) value { return value{f.Type, from, at} },

	"registers": registers,
}).ParseFS(templateFiles, "scripts.tmpl", "binding.tmpl", "functions.tmpl"))

// A value is a field of a reply: the element of a slice, and its type.
type value struct {
	Type, From string
	At         int
}

func scriptsGo(scripts []*script, libraries []library) []byte {
	return goFile("scripts.tmpl", map[string]any{"Scripts": scripts, "Libraries": libraries})
}

func bindingGo(s *script) []byte { return goFile("binding.tmpl", s) }

func goFile(name string, data any) []byte {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the templates fit the types: the goldens run both
	}
	source, err := format.Source(b.Bytes())
	if err != nil {
		panic(fmt.Sprintf("%s: %v\n%s", name, err, b.Bytes()))
	}
	return source
}

const commentWidth = 96

// wrap turns a text into comment lines.
func wrap(text string) string {
	var lines []string
	line := "//"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > commentWidth && line != "//" {
			lines = append(lines, line)
			line = "//"
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}

// extent returns the range of a field in the units of its Go type.
func extent(f field) string {
	bound := func(n int64) string {
		if f.Type == "us" {
			return duration(n)
		}
		return fmt.Sprint(n)
	}
	switch {
	case f.Type == "time" || f.Max < 0 && f.Min == 0:
		return ""
	case f.Max < 0:
		return fmt.Sprintf(" (from %s)", bound(f.Min))
	case f.Type == "str":
		return fmt.Sprintf(" (%d to %d bytes)", f.Min, f.Max)
	}
	return fmt.Sprintf(" (%s to %s)", bound(f.Min), bound(f.Max))
}

// duration formats a duration like time.Duration, without trailing zeros. Long ones are in days.
func duration(us int64) string {
	const day = 24 * 60 * 60 * 1000000
	if us > day && us%day == 0 {
		return fmt.Sprintf("%d days", us/day)
	}
	text := (time.Duration(us) * time.Microsecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
