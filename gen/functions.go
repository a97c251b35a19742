package main

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// A library holds scripts as Redis Functions, each under its ID. A released library never changes, and a function must
// not be in two of them: scripts that are in no released library make the next one.
type library struct {
	Name   string // "sluice_v1"
	Source string
	Has    []*script
}

func (l library) File() string { return "functions/" + l.Name + ".lua" }

func (l library) SHA1() string { return fmt.Sprintf("%x", sha1.Sum([]byte(l.Source))) }

// Variable is the unexported variable with the library's text.
func (l library) Variable() string {
	return "sluice" + camel(strings.TrimPrefix(l.Name, "sluice_")) + "Source"
}

func (l library) has(s *script) bool { return slices.Contains(l.Has, s) }

// libraries returns the released libraries as they are, and the next one, if there are scripts for it.
func libraries(tree fs.FS, scripts []*script) ([]library, error) {
	list, err := fs.ReadFile(tree, releasedFile)
	if err != nil {
		return nil, err
	}
	var found []library
	left := slices.Clone(scripts)
	for line := range strings.Lines(string(list)) {
		_, name, ok := strings.Cut(strings.TrimSpace(line), "  functions/")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		l, err := releasedLibrary(tree, strings.TrimSuffix(name, ".lua"), scripts)
		if err != nil {
			return nil, err
		}
		found = append(found, l)
		left = slices.DeleteFunc(left, l.has)
	}
	if len(left) > 0 {
		found = append(found, newLibrary(fmt.Sprintf("sluice_v%d", len(found)+1), left))
	}
	return found, nil
}

func releasedLibrary(tree fs.FS, name string, scripts []*script) (library, error) {
	l := library{Name: name}
	source, err := fs.ReadFile(tree, "scripts/"+l.File())
	l.Source = string(source)
	for _, s := range scripts {
		if strings.Contains(l.Source, registers(s)) {
			l.Has = append(l.Has, s)
		}
	}
	return l, err
}

// registers is the line of a library that makes a script a function.
func registers(s *script) string {
	return fmt.Sprintf("redis.register_function(%q, %s)\n", s.ID(), s.ID())
}

func newLibrary(name string, scripts []*script) library {
	l := library{Name: name, Has: scripts}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "functions.tmpl", l); err != nil {
		panic(err) // the template fits the type: a golden runs it
	}
	l.Source = b.String()
	return l
}

// Look returns the name of the function that only looks, "" if there is none: of a script that grants.
func (s *script) Look() string {
	if !slices.Contains(fieldNames(s.Reply), "granted") {
		return ""
	}
	return s.ID() + "_look"
}

// Charges returns the lines of Lua that refuse a call of a script with Look that asks for more than a look.
func (s *script) Charges() (lines []string) {
	args, places := fieldNames(s.Args), argPlaces(s.Args)
	for i, name := range args {
		over := fmt.Sprintf("if (tonumber(ARGV[%s]) or 0) > 0 then return redis.error_reply(", places[i])
		switch name {
		case "permits", "reported":
			lines = append(lines, fmt.Sprintf(`%s"BADARG %s: want 0") end`, over, name))
		}
	}
	if at := slices.Index(args, "id"); len(lines) == 0 {
		lines = append(lines, fmt.Sprintf(`if (ARGV[%s] or "") ~= "" then return redis.error_reply(`+
			`"BADARG id: want an empty one") end`, places[at]))
	}
	return lines
}
