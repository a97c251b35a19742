package main

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A script holds parts that the generator prints into it, each between two lines:
//
//	-- PART <name>: printed by make generate
//	-- END
//
// The part arguments comes first: it reads and checks KEYS and ARGV as the header says. Any other is the file
// gen/parts/<name>.lua, moved as far to the right as its mark. Where no script for many keys is made, a part comes
// without the lines that say how (see many.go).
//
//go:embed parts/*.lua
var partFiles embed.FS

const (
	partMark = "-- PART %s: printed by make generate"
	partEnd  = "-- END"
)

var (
	partPattern  = regexp.MustCompile(`^( *)` + fmt.Sprintf(partMark, "([a-z_]+)") + `$`)
	marksPattern = regexp.MustCompile(`(?m)^ *(` + fmt.Sprintf(partMark, "[a-z_]+") + `|` + partEnd + `)\n`)
)

// printParts prints the parts of a script into its source.
func printParts(file string, s *script) error {
	lines := strings.Split(s.Source, "\n")
	isMany := slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, manyMark) })
	var printed []string
	for i := 0; i < len(lines); i++ {
		printed = append(printed, lines[i])
		mark := partPattern.FindStringSubmatch(lines[i])
		if mark == nil {
			continue
		}
		at, indent := place{file, len(printed), 1}, mark[1]
		text, err := part(mark[2], s)
		if err != nil {
			return refuse(at, "part %q, want arguments or a file of gen/parts", mark[2])
		}
		end := slices.Index(lines[i:], indent+partEnd)
		if end < 0 || slices.ContainsFunc(lines[i+1:i+end], partPattern.MatchString) {
			return refuse(at, "a part without an end, want %q", indent+partEnd)
		}
		for line := range strings.Lines(text) {
			if isMany || !strings.HasPrefix(strings.TrimLeft(line, " "), manyMark) {
				printed = append(printed, strings.TrimRight(indent+line, " \n"))
			}
		}
		if mark[2] == "arguments" {
			s.argsFrom, s.argsTo = at.line, len(printed)
		}
		i += end - 1
	}
	s.Source = strings.Join(printed, "\n")
	if s.argsTo == 0 && s.KeyGroup == nil {
		return refuse(place{file, s.body, 1}, "nothing reads the arguments, want the lines %q and %q",
			fmt.Sprintf(partMark, "arguments"), partEnd)
	}
	return nil
}

func part(name string, s *script) (string, error) {
	if name == "arguments" {
		return arguments(s), nil
	}
	text, err := partFiles.ReadFile("parts/" + name + ".lua")
	return string(text), err
}

// arguments returns the code that reads KEYS and ARGV into locals of their names, those of a group into tables, and
// refuses what is not as the header says.
func arguments(s *script) string {
	var b strings.Builder
	if slices.ContainsFunc(s.Args, func(f field) bool { return f.Type != "str" }) {
		integer, _ := part("integer", s)
		b.WriteString(integer + "\n")
	}
	b.WriteString(keysCount(s))
	b.WriteString(argsCount(s))
	if s.KeyGroup == nil {
		reads := make([]string, len(s.Keys))
		for i := range reads {
			reads[i] = fmt.Sprintf("KEYS[%d]", i+1)
		}
		fmt.Fprintf(&b, "local %s = %s\n", strings.Join(keyNames(s), ", "), strings.Join(reads, ", "))
	}
	alone, own, places := plain(s.Args), ofKeys(s.Args), argPlaces(s.Args)
	for i, f := range alone {
		b.WriteString(f.read("", places[i], f.Name))
	}
	places = places[len(alone):]
	if len(own) > 0 {
		b.WriteString(members("k", "#KEYS", own, places))
	}
	if s.Group != nil {
		b.WriteString(members("i", groupCount(s), inGroup(s.Args), places[len(own):]))
	}
	return b.String()
}

// argsCount returns the lines that refuse another number of arguments.
func argsCount(s *script) string {
	n, all := int64(len(plain(s.Args))), int64(len(inGroup(s.Args)))
	count, rest := "#ARGV", "#ARGV"
	if len(ofKeys(s.Args)) > 0 {
		count, rest = "#ARGV - #KEYS", "(#ARGV - #KEYS)"
	}
	g, want := s.Group, wantedArgs(s)
	if g == nil {
		return fmt.Sprintf("if %s ~= %d then return redis.error_reply(\"BADARG ARGV: want %s\") end\n", count, n, want)
	}
	return fmt.Sprintf("if %s < %d or %[1]s > %[3]d or %s %% %d ~= %d then\n"+
		"  return redis.error_reply(\"BADARG ARGV: want %s\")\nend\n",
		count, n+all*g.Min, n+all*g.Max, rest, all, n%all, want)
}

// wantedArgs says which arguments a script takes; how many, if none is repeated.
func wantedArgs(s *script) string {
	alone := fieldNames(plain(s.Args))
	if len(repeated(s.Args)) == 0 {
		return fmt.Sprint(len(alone))
	}
	for _, f := range ofKeys(s.Args) {
		alone = append(alone, "each key's "+strings.TrimSuffix(f.Name, "_k"))
	}
	g := s.Group
	if g == nil {
		return strings.Join(alone, ", ")
	}
	var each []string
	for _, f := range inGroup(s.Args) {
		each = append(each, strings.TrimSuffix(f.Name, "_i"))
	}
	return fmt.Sprintf("%s, then %s of %d..%d %ss",
		strings.Join(alone, ", "), strings.Join(each, ", "), g.Min, g.Max, g.Name)
}

// groupCount is how many members the group has, as Lua.
func groupCount(s *script) string {
	before := fmt.Sprint(len(plain(s.Args)))
	if len(ofKeys(s.Args)) > 0 {
		before += " - #KEYS"
	}
	return fmt.Sprintf("(#ARGV - %s) / %d", before, len(inGroup(s.Args)))
}

func keysCount(s *script) string {
	if g := s.KeyGroup; g != nil {
		return fmt.Sprintf("if #KEYS < %d or #KEYS > %d then "+
			"return redis.error_reply(\"BADARG KEYS: want %[1]d to %[2]d\") end\n", g.Min, g.Max)
	}
	return fmt.Sprintf("if #KEYS ~= %d then return redis.error_reply(\"BADARG KEYS: want %[1]d\") end\n", len(s.Keys))
}

// members returns the loop over n that reads the arguments of so many members, each from its place, into tables.
func members(n, count string, fields []field, places []string) string {
	names, tables, empty, cells := fieldNames(fields), []string{}, []string{}, []string{}
	for _, name := range names {
		table := tableOf(name)
		tables, empty, cells = append(tables, table), append(empty, "{}"), append(cells, table+"["+n+"]")
	}
	text := fmt.Sprintf("local %s = %s\n", strings.Join(tables, ", "), strings.Join(empty, ", "))
	text += fmt.Sprintf("for %s = 1, %s do\n", n, count)
	for i, f := range fields {
		text += f.read("  ", places[i], strings.TrimSuffix(f.Name, n)+`" .. `+n+` .. "`)
	}
	return text + fmt.Sprintf("  %s = %s\nend\n", strings.Join(cells, ", "), strings.Join(names, ", "))
}

// tableOf is the local that holds an argument of all members: limits for limit_i, all_reported for reported_k.
func tableOf(name string) string {
	if of, ok := strings.CutSuffix(name, "_k"); ok {
		return "all_" + of
	}
	return strings.TrimSuffix(strings.TrimSuffix(name, "_i"), "s") + "s"
}

// read returns the lines that read an argument, and refuse it under the name that an error gives it.
func (f field) read(indent, index, name string) string {
	read, bad, want := fmt.Sprintf("integer(ARGV[%s], %d, %d)", index, f.Min, f.Max), "not "+f.Name,
		fmt.Sprintf("%d..%d", f.Min, f.Max)
	if f.Type == "str" {
		read, bad, want = fmt.Sprintf("ARGV[%s]", index), "", fmt.Sprintf("up to %d bytes", f.Max)
		noBar := strings.Contains(f.Text, `without "|"`)
		if f.Min > 0 {
			bad = fmt.Sprintf("#%s < %d or ", f.Name, f.Min)
		}
		if f.Min > 0 || noBar {
			want = fmt.Sprintf("%d to %d bytes", max(f.Min, 1), f.Max) // 0 bytes only to look
		}
		bad += fmt.Sprintf("#%s > %d", f.Name, f.Max)
		if noBar {
			bad, want = bad+fmt.Sprintf(` or %s:find("|")`, f.Name), want+" without |"
		}
	}
	return fmt.Sprintf("%slocal %s = %s\n%[1]sif %[4]s then return redis.error_reply(\"BADARG %[5]s: want %[6]s\") end\n",
		indent, f.Name, read, bad, name, want)
}
