package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// A script for many keys is made from the script for one. This line in the body of x_v1 says so, and for how many keys:
//
//	-- MANY: x_many_v1 repeats what follows for 1..64 keys.
//	-- MANY: x_many_v1 repeats what follows for 1..64 keys, keys * permits up to 1000, 256 calls of f.
//	-- MANY: x_many_v1 repeats what follows for 1..64 keys, work up to 10000.
//	-- MANY: x_many_v1 repeats what follows for 1..64 keys, each with its reported, work up to 10000.
//
// The arguments are the same for all keys. Only the one that "each with its" names is given for each key: reported_k.
//
// After so many calls of the function f the other keys are not decided: granted -3. That bounds the cost of a call.
// Work bounds it more closely. A line before anything is written counts it. A key that needs more than is left is not
// decided, unless none before it has worked:
//
//	-- MANY: the script for many keys counts work <expression> here.
//
// What stands before it is done once for all keys. What follows becomes the function decide, in which a reply {.., now}
// or {.., now, unpack(counts)} is returned without now, and counts as a table. The header is made from that of the
// script.
var (
	manyPattern = regexp.MustCompile(
		`^-- MANY: ([a-z0-9_]+) repeats what follows for 1\.\.([1-9][0-9]*) keys(?:, each with its ([a-z_]+))?` +
			`(?:, keys \* ([a-z_]+) up to ([1-9][0-9]*), ([1-9][0-9]*) calls of ([a-z_]+)|, work up to ([1-9][0-9]*))?\.$`)
	workPattern = regexp.MustCompile(`(?m)^( *)-- MANY: the script for many keys counts work (.+) here\.$`)
)

const (
	manyMark  = "-- MANY"
	manyFiles = "_many_v" // in the names of the scripts that are made
	clockRead = "local clock = redis.call(\"TIME\")\n"
)

var (
	manyTemplate = template.Must(template.New("many.tmpl").Funcs(template.FuncMap{
		"join": func(words []string) string { return strings.Join(words, ", ") },
	}).ParseFS(templateFiles, "many.tmpl"))
	repliedPattern = regexp.MustCompile(`return \{(.*), now(?:(, )unpack\(([a-z_]+)\))?\}`)
)

// A repetition is what the template needs to write the script for many keys.
type repetition struct {
	*script         // for one key
	many    *script // for many: its keys and arguments
	Max     string  // number of keys
	Own     string  // the argument of which each key has its own; "" if there is none
	Bound   string  // of the product of keys and the argument Product; "" if there is none
	Product string
	Counted string // the function whose calls are bounded; "" if none is
	Calls   string
	Work    string // bound of what is counted in the body; "" if nothing is

	once, each string // the body before and behind the mark
}

// manyScripts makes the scripts for many keys. files are those of scripts/.
func manyScripts(tree fs.FS, scripts []*script) (made []*script, err error) {
	for _, s := range scripts {
		source, err := manySource(s)
		if err != nil {
			return nil, err
		}
		if source == "" {
			continue
		}
		many, err := parseScript("scripts/"+s.manyID()+".lua", source)
		if err != nil {
			return nil, err
		}
		made = append(made, many)
	}
	return made, checkMade(tree, made)
}

// checkMade refuses scripts for many keys that are made from none.
func checkMade(tree fs.FS, made []*script) error {
	files, err := fs.Glob(tree, "scripts/*"+manyFiles+"*.lua")
	if err != nil {
		return err
	}
	for _, file := range files {
		ofFile := func(s *script) bool { return s.File() == path.Base(file) }
		if !slices.ContainsFunc(made, ofFile) {
			return refuse(place{file, 1, 1}, "no script is marked %s: %s .., want one, or this file removed", manyMark,
				strings.TrimSuffix(path.Base(file), ".lua"))
		}
	}
	return nil
}

func (s *script) manyID() string { return fmt.Sprintf("%s_many_v%d", s.Name, s.Version) }

// manySource returns the script for many keys, or "" if the script has no mark.
func manySource(s *script) (string, error) {
	lines := strings.Split(s.Source, "\n")
	mark := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, manyMark) })
	if mark < 0 {
		return "", nil
	}
	at := place{"scripts/" + s.File(), mark + 1, 1}
	parts := manyPattern.FindStringSubmatch(lines[mark])
	if parts == nil || parts[1] != s.manyID() {
		return "", refuse(at, "found %q, want %q, perhaps with %q, and then %q or %q, before the full stop", lines[mark],
			manyMark+": "+s.manyID()+" repeats what follows for 1..<max> keys.", ", each with its <argument>",
			", keys * <argument> up to <max>, <max> calls of <function>", ", work up to <max>")
	}
	if alone := plain(s.Reply); len(s.Keys) != 1 || len(alone) == 0 || alone[len(alone)-1].Name != "now" {
		return "", refuse(at, "a script with %d keys whose reply has %s, want one key, and now as the last field that is "+
			"not repeated", len(s.Keys), strings.Join(fieldNames(s.Reply), ", "))
	}
	r := &repetition{
		script: s, Max: parts[2], Own: parts[3],
		Product: parts[4], Bound: parts[5], Calls: parts[6], Counted: parts[7], Work: parts[8],
		once: marksPattern.ReplaceAllString(strings.Join(lines[s.body-1:mark], "\n"), ""),
		each: marksPattern.ReplaceAllString(strings.TrimPrefix(strings.Join(lines[mark+1:], "\n"), "\n"), ""),
	}
	if r.Bound != "" && (!strings.Contains(r.once, clockRead) || !r.countedPattern().MatchString(r.once)) {
		return "", refuse(at, "a bound of keys * %s and of calls, want %q and the function %s before",
			r.Product, clockRead, r.Counted)
	}
	if counts := workPattern.MatchString(r.each); counts != (r.Work != "") {
		return "", refuse(at, "a bound of work and lines that count it, want both or none: %s: the script "+
			"for many keys counts work <expression> here.", manyMark)
	}
	isOwn := func(f field) bool { return f.Name == r.Own && !f.Repeated && f.Name != "permits" && f.Name != "id" }
	if r.Own != "" && !slices.ContainsFunc(s.Args, isOwn) {
		return "", refuse(at, "each key with its %s, want an argument that is not repeated, and neither permits nor id, "+
			"by which a look is known", r.Own)
	}
	r.many = r.forMany()
	var b bytes.Buffer
	if err := manyTemplate.Execute(&b, r); err != nil {
		panic(err) // the template fits the type: a golden runs it
	}
	return b.String(), nil
}

// forMany returns the script with its keys and arguments for many keys.
func (r *repetition) forMany() *script {
	many := *r.script
	most, _ := strconv.ParseInt(r.Max, 10, 64)
	many.KeyGroup = &group{Min: 1, Max: most}
	var shared, own []field
	for _, f := range plain(r.Args) {
		if f.Name == r.Own {
			f.Name, f.Repeated = r.Own+"_k", true
			own = append(own, f)
		} else {
			shared = append(shared, f)
		}
	}
	many.Args = slices.Concat(shared, own, inGroup(r.Args))
	return &many
}

// Once returns the part of the body that is run once for all keys.
func (r *repetition) Once() string {
	bound := ""
	if r.Bound != "" {
		bound = fmt.Sprintf(`if #KEYS * %s > %s then
  return redis.error_reply("BADARG %[1]s: want keys * %[1]s up to %[2]s")
end

`, r.Product, r.Bound)
	}
	once := strings.NewReplacer(arguments(r.script), arguments(r.many), clockRead, bound+clockRead).Replace(r.once)
	if r.Counted == "" {
		return once
	}
	counted := "local calls = 0 -- of " + r.Counted + ", for all keys\n$0  calls = calls + 1\n"
	return r.countedPattern().ReplaceAllString(once, counted)
}

// countedPattern matches the first line of the function whose calls are bounded.
func (r *repetition) countedPattern() *regexp.Regexp {
	return regexp.MustCompile(`local function ` + r.Counted + `\([a-z_, ]*\)\n`)
}

// Each returns the body of the function that decides about one key.
func (r *repetition) Each() string {
	each := workPattern.ReplaceAllString(r.each, "${1}if exceeds($2) then\n$1  return "+r.Undecided()+"\n${1}end")
	var b strings.Builder
	for line := range strings.Lines(each) {
		if line != "\n" {
			b.WriteString("  ")
		}
		b.WriteString(repliedPattern.ReplaceAllString(line, "return $1$2$3"))
	}
	return b.String()
}

// Fields are the names of the replies that each key has: all but now and those of the group.
func (r *repetition) Fields() []string {
	alone := fieldNames(plain(r.Reply))
	return alone[:len(alone)-1]
}

// Counts is the local that holds the replies of the group; "" if there are none.
func (r *repetition) Counts() string {
	for _, f := range inGroup(r.Reply) {
		return strings.TrimSuffix(f.Name, "_i") + "s"
	}
	return ""
}

// Decided are the locals that hold what decide returns.
func (r *repetition) Decided() string {
	return strings.TrimSuffix(strings.Join(append(r.Fields(), r.Counts()), ", "), ", ")
}

// Undecided are their values for a key that is not decided.
func (r *repetition) Undecided() string {
	values := "-3" + strings.Repeat(", 0", len(r.Fields())-1)
	if r.Counts() != "" {
		values += ", {}"
	}
	return values
}

// Most is the condition under which one more key is decided, "" if every key is.
func (r *repetition) Most() string {
	switch {
	case r.Counted != "":
		return "calls < " + r.Calls
	case r.Work != "":
		return "work < " + r.Work
	}
	return ""
}

// Before is what the keys before one that is not decided have done, and when to expect that.
func (r *repetition) Before() (done, expect string) {
	if r.Work != "" {
		return "used up the work of a call",
			fmt.Sprintf("with more than 40 new or long idle %ss (2 windows of 201 slices)", r.Keys[0].Name)
	}
	return "read " + r.Calls + " entries", "in calls for more than 15 keys"
}

// GroupCount is how many members the group has, as Lua.
func (r *repetition) GroupCount() string { return groupCount(r.many) }

// Decide is the call that decides about key i.
func (r *repetition) Decide() string {
	call := "decide(KEYS[i]"
	for _, f := range ofKeys(r.many.Args) {
		call += ", " + tableOf(f.Name) + "[i]"
	}
	return call + ")"
}

// Places are where the replies for one key go.
func (r *repetition) Places() []string {
	places := make([]string, len(r.Fields()))
	for i := range places {
		places[i] = fmt.Sprintf("reply[n + %d]", i+1)
	}
	return places
}

// Order is the script's complexity for K keys.
func (r *repetition) Order() string {
	return "O(K" + strings.TrimPrefix(" "+strings.TrimPrefix(r.Cost.Order, "O("), " 1")
}

// Prose returns the prose of the header.
func (r *repetition) Prose() string {
	number, refused, again := "", ": too much is counted, never too little.", ""
	if r.Own != "" || r.Bound != "" { // the rows have K
		number = " K is the number of keys."
	}
	if r.Own != "" {
		refused = fmt.Sprintf(". What is %s of that key and of later ones is not counted.", r.Own)
		again = fmt.Sprintf(", with what is %s: it was not counted either", r.Own)
	}
	text := fmt.Sprintf("%s for up to %s subjects of one limiter in one call.%s REPLY goes on with EACH for each key in "+
		"turn. Each key is decided as by %[1]s, and twice if it is named twice. Only granted above 0 is a grant. A key that "+
		"cannot be decided has granted -1 (BADSTATE) or -2 (WRONGTYPE); the others are decided. If Redis refuses a command, "+
		"for example by an ACL, the call ends with that error, and keys before it keep their grants%[4]s In a cluster all "+
		"keys must lie in one slot: different subjects mostly do not.",
		r.ID(), r.Max, number, refused)
	if r.Most() != "" {
		done, expect := r.Before()
		text += fmt.Sprintf(" Granted -3: not decided and not charged, because the keys before it have %s. Expect it %s. "+
			"Ask for these keys again%s.", done, expect, again)
	}
	return wrapTo(maxColumns-2, "--", text) + "\n"
}

// Rows returns the rows of the header that begin with a word.
func (r *repetition) Rows(word string) string { return strings.Join(r.rows(word), "") }

// rows are the rows that begin with a word, each with the lines that continue it.
func (r *repetition) rows(word string) (rows []string) {
	inside := false
	for _, line := range strings.Split(r.Source, "\n")[:r.body-2] {
		if strings.HasPrefix(line, "-- "+word) {
			inside, rows = true, append(rows, "")
		}
		inside = inside && (strings.HasPrefix(line, "-- "+word) || continues(line))
		if inside {
			rows[len(rows)-1] += line + "\n"
		}
	}
	return rows
}

func continues(line string) bool {
	return line != "--" && strings.TrimSpace(cut(line, 2, nameColumn-1)) == ""
}

// ArgRows returns the rows of the arguments, with the bound of the product. Where each key has one of its own, their
// places and columns are others.
func (r *repetition) ArgRows() string {
	rows := r.rows("ARGV")
	if r.Bound != "" {
		bounded := slices.Index(fieldNames(r.Args), r.Product)
		rows[bounded] = strings.Replace(rows[bounded], ";", fmt.Sprintf(", K * %s up to %s;", r.Product, r.Bound), 1)
	}
	if r.Own == "" {
		return strings.Join(rows, "")
	}
	b := ""
	for i, place := range argPlaces(r.many.Args) {
		name := r.many.Args[i].Name
		row := rows[slices.Index(fieldNames(r.Args), strings.TrimSuffix(name, "_k"))]
		b += fmt.Sprintf("-- %-12s %-11s %s", headerIndex(place), name, row[thirdColumn-1:])
	}
	return b
}

// ReplyRows returns the rows of the replies: now, then those for each key.
func (r *repetition) ReplyRows() string {
	rows, now := r.rows("REPLY"), len(r.Fields())
	b := "-- REPLY[1]    " + rows[now][nameColumn-1:] + r.grantedRow()
	for i := 1; i < len(rows); i++ {
		switch {
		case i < now:
			b += fmt.Sprintf("-- EACH[%-6s", fmt.Sprintf("%d]", i+1)) + rows[i][nameColumn-2:]
		case i > now:
			b += fmt.Sprintf("-- EACH[%-6s", fmt.Sprintf("%d+i]", now)) + rows[i][nameColumn-2:]
		}
	}
	return b
}

// grantedRow is the row of the first reply for a key, which is a number below 0 if the key was not decided.
func (r *repetition) grantedRow() string {
	granted, least, text := r.Reply[0], -2, ""
	if r.Most() != "" {
		least, text = -3, ", -3: ask again"
	}
	return fmt.Sprintf("-- EACH[1]     %-12s %-5s %-23s permits granted; -1: BADSTATE, -2: WRONGTYPE%s\n", granted.Name,
		granted.Type, fmt.Sprintf("%d..%d", least, granted.Max), text)
}

// ErrorRows returns the rows of the errors. Those of one key are numbers in the reply.
func (r *repetition) ErrorRows() string {
	return strings.NewReplacer(
		"WRONGTYPE    ", "WRONGTYPE    granted -2: ",
		"BADSTATE     ", "BADSTATE     granted -1: ",
	).Replace(r.Rows("ERROR"))
}
