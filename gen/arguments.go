package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// integerSource is the function that reads an argument.
const integerSource = "" +
	`-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

`

// arguments returns the code that reads KEYS and ARGV into locals of their names, those of a group into tables, and
// refuses what is not as the header says.
func arguments(s *script) string {
	var b strings.Builder
	if slices.ContainsFunc(s.Args, func(f field) bool { return f.Type != "str" }) {
		b.WriteString(integerSource)
	}
	b.WriteString(keysCount(s))
	b.WriteString(argsCount(s))
	if s.KeyGroup == nil {
		fmt.Fprintf(&b, "local %s = %s\n", strings.Join(keyLocals(s), ", "), strings.Join(keyReads(s), ", "))
	}
	places := argPlaces(s.Args)
	for i, f := range plain(s.Args) {
		b.WriteString(f.read("", places[i], f.Name))
	}
	if s.Group != nil {
		b.WriteString(members(s, places[len(plain(s.Args)):]))
	}
	return b.String()
}

// keyLocals are the locals that hold the keys. That of the group's keys is a table, which may have others behind them.
func keyLocals(s *script) []string {
	names := keyNames(s)
	if s.Group != nil {
		names[0] = tableOf(names[0])
	}
	return names
}

func keyReads(s *script) (reads []string) {
	for i := range s.Keys {
		read := fmt.Sprintf("KEYS[%d]", i+1)
		switch last := len(s.Keys) - 1 - i; {
		case s.Group != nil && i == 0:
			read = "KEYS"
		case s.Group != nil && last == 0:
			read = "KEYS[#KEYS]"
		case s.Group != nil:
			read = fmt.Sprintf("KEYS[#KEYS - %d]", last)
		}
		reads = append(reads, read)
	}
	return reads
}

// keysCount returns the lines that refuse another number of keys.
func keysCount(s *script) string {
	low, high := int64(len(s.Keys)), int64(len(s.Keys))
	switch g := s.Group; {
	case s.KeyGroup != nil:
		low, high = s.KeyGroup.Min, s.KeyGroup.Max
	case g != nil:
		low, high = low-1+g.Min, high-1+g.Max
	default:
		return fmt.Sprintf("if #KEYS ~= %d then return redis.error_reply(\"BADARG KEYS: want %[1]d\") end\n", low)
	}
	return fmt.Sprintf("if #KEYS < %d or #KEYS > %d then "+
		"return redis.error_reply(\"BADARG KEYS: want %[1]d to %[2]d\") end\n", low, high)
}

// argsCount returns the lines that refuse another number of arguments. The keys say how many members the group has; in
// a script for many subjects the arguments do, and the keys must be as many for each subject.
func argsCount(s *script) string {
	alone, each := len(plain(s.Args)), len(repeated(s.Args))
	refuse := fmt.Sprintf("return redis.error_reply(\"BADARG ARGV: want %s\")", wantedArgs(s))
	g := s.Group
	switch {
	case g == nil:
		return fmt.Sprintf("if #ARGV ~= %d then %s end\n", alone, refuse)
	case s.KeyGroup == nil:
		return fmt.Sprintf("if #ARGV ~= %s then\n  %s\nend\n", argNumber(alone, each, len(s.Keys)-1), refuse)
	}
	return fmt.Sprintf("local %[1]ss = (#ARGV - %[2]d) / %[3]d\n"+
		"if %[1]ss < %[4]d or %[1]ss > %[5]d or %[1]ss %% 1 > 0 then\n  %[6]s\nend\n"+
		"if #KEYS %% %[1]ss > 0 then return redis.error_reply(\"BADARG KEYS: want one for each %[1]s of each %[7]s\") end\n",
		g.Name, alone, each, g.Min, g.Max, refuse, s.KeyGroup.Name)
}

// argNumber is how many arguments a call has, as Lua: so many alone and for each member of the group, whose keys others
// follow.
func argNumber(alone, each, others int) string {
	switch rest := alone - each*others; {
	case rest > 0:
		return fmt.Sprintf("%d + %d * #KEYS", rest, each)
	case rest < 0:
		return fmt.Sprintf("%d * #KEYS - %d", each, -rest)
	}
	return fmt.Sprintf("%d * #KEYS", each)
}

// wantedArgs says which arguments a script takes; how many, if none is repeated.
func wantedArgs(s *script) string {
	alone := fieldNames(plain(s.Args))
	if s.Group == nil {
		return fmt.Sprint(len(alone))
	}
	var each []string
	for _, f := range repeated(s.Args) {
		each = append(each, strings.TrimSuffix(f.Name, "_i"))
	}
	return fmt.Sprintf("%s, then %s for each %s", strings.Join(alone, ", "), strings.Join(each, ", "), s.Group.Name)
}

// memberCount is how many members the group has, as Lua.
func memberCount(s *script) string {
	switch others := len(s.Keys) - 1; {
	case s.KeyGroup != nil:
		return s.Group.Name + "s"
	case others > 0:
		return fmt.Sprintf("#KEYS - %d", others)
	}
	return "#KEYS"
}

// members returns the loop that reads the arguments of each member of the group, each from its place, into tables.
func members(s *script, places []string) string {
	fields := repeated(s.Args)
	names, tables, empty, cells := fieldNames(fields), []string{}, []string{}, []string{}
	for _, name := range names {
		table := tableOf(name)
		tables, empty, cells = append(tables, table), append(empty, "{nil, nil}"), append(cells, table+"[i]")
	}
	text := fmt.Sprintf("local %s = %s -- room for two: growing is slow\n", strings.Join(tables, ", "),
		strings.Join(empty, ", "))
	text += fmt.Sprintf("for i = 1, %s do\n", memberCount(s))
	for i, f := range fields {
		text += f.read("  ", places[i], strings.TrimSuffix(f.Name, "i")+`" .. i .. "`)
	}
	return text + fmt.Sprintf("  %s = %s\nend\n", strings.Join(cells, ", "), strings.Join(names, ", "))
}

// tableOf is the local that holds what each member of the group has: limits for limit_i.
func tableOf(name string) string {
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

// argPlaces are the places of arguments in ARGV, as Lua: first of those alone, then of the group's.
func argPlaces(args []field) (places []string) {
	alone, each := len(plain(args)), len(repeated(args))
	for i := range alone {
		places = append(places, strconv.Itoa(i+1))
	}
	for i := range each {
		places = append(places, memberPlace(each, alone+i))
	}
	return places
}

// memberPlace is the place of an argument of member i, of which each has so many arguments. So many others stand before
// that of the first.
func memberPlace(each, before int) string {
	formula := "i"
	if each > 1 {
		formula = fmt.Sprintf("%d * i", each)
	}
	switch c := before + 1 - each; {
	case c > 0:
		formula += fmt.Sprintf(" + %d", c)
	case c < 0:
		formula += fmt.Sprintf(" - %d", -c)
	}
	return formula
}
