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

//go:embed scripts.tmpl binding.tmpl
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"names":    func(s *script) names { return names{s} },
	"plain":    plain,
	"repeated": repeated,
	"wrap":     wrap,
	"extent":   extent,
}).ParseFS(templateFiles, "*.tmpl"))

// scriptsGo is scripts_gen.go.
func scriptsGo(scripts []*script) []byte { return goFile("scripts.tmpl", scripts) }

// bindingGo is the binding of a script.
func bindingGo(s *script) []byte { return goFile("binding.tmpl", s) }

func goFile(name string, data any) []byte {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the templates fit the types: each golden runs both
	}
	source, err := format.Source(b.Bytes())
	if err != nil {
		panic(fmt.Sprintf("%s: %v\n%s", name, err, b.Bytes()))
	}
	return source
}

const commentWidth = 96

// wrap makes a text into lines of a comment.
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

// extent says the range of a field in the units of its Go type.
func extent(f field) string {
	bound := func(n int64) string {
		if f.Type == "us" {
			return duration(n)
		}
		return fmt.Sprint(n)
	}
	switch {
	case f.Type == "time" || f.Most < 0 && f.Least == 0:
		return ""
	case f.Most < 0:
		return fmt.Sprintf(" (from %s)", bound(f.Least))
	case f.Type == "str":
		return fmt.Sprintf(" (%d to %d bytes)", f.Least, f.Most)
	}
	return fmt.Sprintf(" (%s to %s)", bound(f.Least), bound(f.Most))
}

// duration is a time.Duration's text without zeros behind it; it holds the longest in days.
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
