package main

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"strings"
	"text/template"
)

//go:embed scripts.tmpl many.tmpl functions.tmpl
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"names":     func(s *script) names { return names{s} },
	"wrap":      wrap,
	"registers": registers,
}).ParseFS(templateFiles, "scripts.tmpl", "functions.tmpl"))

func scriptsGo(scripts []*script, libraries []library) []byte {
	return goFile("scripts.tmpl", map[string]any{"Scripts": scripts, "Libraries": libraries})
}

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
func wrap(text string) string { return wrapTo(commentWidth, "//", text) }

// wrapTo breaks a text into lines of up to width columns that begin with mark.
func wrapTo(width int, mark, text string) string {
	var lines []string
	line := mark
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width && line != mark {
			lines = append(lines, line)
			line = mark
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}
