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
//
// The arguments are the same for all keys. After so many calls of the function f the other keys are not decided:
// granted -3. That bounds the cost of a call.
//
// What stands before the line is done once for all keys. What follows becomes the function decide, in which a reply
// {.., now} or {.., now, unpack(counts)} is returned without now, and counts as a table. The header is made from the
// script's. Where the script takes a key for each member of a group, decide takes the keys of one subject.
var manyPattern = regexp.MustCompile(
	`^-- MANY: ([a-z0-9_]+) repeats what follows for 1\.\.([1-9][0-9]*) keys` +
		`(?:, keys \* ([a-z_]+) up to ([1-9][0-9]*), ([1-9][0-9]*) calls of ([a-z_]+))?\.$`)

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
	Bound   string  // of the product of keys and the argument Product; "" if there is none
	Product string
	Counted string // the function whose calls are bounded; "" if none is
	Calls   string

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
		return "", refuse(at, "found %q, want %q, perhaps with %q before the full stop", lines[mark],
			manyMark+": "+s.manyID()+" repeats what follows for 1..<max> keys.",
			", keys * <argument> up to <max>, <max> calls of <function>")
	}
	if alone := plain(s.Reply); len(s.Keys) != 1 || len(alone) == 0 || alone[len(alone)-1].Name != "now" {
		return "", refuse(at, "a script with %d keys whose reply has %s, want one key, and now as the last field that is "+
			"not repeated", len(s.Keys), strings.Join(fieldNames(s.Reply), ", "))
	}
	r := &repetition{
		script: s, Max: parts[2], Product: parts[3], Bound: parts[4], Calls: parts[5], Counted: parts[6],
		once: marksPattern.ReplaceAllString(strings.Join(lines[s.body-1:mark], "\n"), ""),
		each: marksPattern.ReplaceAllString(strings.TrimPrefix(strings.Join(lines[mark+1:], "\n"), "\n"), ""),
	}
	if r.Bound != "" && (!strings.Contains(r.once, clockRead) || !r.countedPattern().MatchString(r.once)) {
		return "", refuse(at, "a bound of keys * %s and of calls, want %q and the function %s before",
			r.Product, clockRead, r.Counted)
	}
	r.many = r.forMany()
	var b bytes.Buffer
	if err := manyTemplate.Execute(&b, r); err != nil {
		panic(err) // the template fits the type: a golden runs it
	}
	return b.String(), nil
}

// forMany returns the script with its keys for many subjects.
func (r *repetition) forMany() *script {
	many := *r.script
	most, _ := strconv.ParseInt(r.Max, 10, 64)
	many.KeyGroup = &group{Name: "subject", Min: 1, Max: most}
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
	var b strings.Builder
	for line := range strings.Lines(r.each) {
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
	for _, f := range repeated(r.Reply) {
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
	if r.Counted == "" {
		return ""
	}
	return "calls < " + r.Calls
}

// KeyRow is the row of the keys.
func (r *repetition) KeyRow() string {
	index := "KEYS[k]"
	if r.Group != nil {
		index = "KEYS[ki]"
	}
	return fmt.Sprintf("-- %-11s %-12s %s", index, r.Keys[0].Name, r.Keys[0].Pattern)
}

// Key is the parameter of decide: the key of one subject, or the table of its keys.
func (r *repetition) Key() string { return keyLocals(r.script)[0] }

// KeyOf is what decide takes for subject k.
func (r *repetition) KeyOf() string {
	if r.Group == nil {
		return "KEYS[k]"
	}
	return fmt.Sprintf("{unpack(KEYS, (k - 1) * %ss + 1, k * %[1]ss)}", r.Group.Name)
}

// Subjects is how many there are, as Lua.
func (r *repetition) Subjects() string {
	if r.Group == nil {
		return "#KEYS"
	}
	return fmt.Sprintf("#KEYS / %ss", r.Group.Name)
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
	keys := "REPLY goes on with EACH for each key in turn. Each key is decided as by %s, and twice if it is named twice."
	if r.Group != nil {
		keys = "KEYS has the " + tableOf(r.Keys[0].Name) + " of the first subject, then of the next. REPLY goes on with " +
			"EACH for each subject in turn. Each is decided as by %s, and twice if it is named twice."
	}
	if r.Bound != "" { // a row has K
		keys += " K is the number of keys."
	}
	text := fmt.Sprintf("%s for up to %s keys of one limiter in one call. "+keys+" Only granted above 0 is a grant. "+
		"One that cannot be decided has granted -1 (BADSTATE) or -2 (WRONGTYPE); the others are decided. If Redis refuses a command, "+
		"for example by an ACL, the call ends with that error, and those before it keep their grants: too much is counted, "+
		"never too little. In a cluster all keys must lie in one slot: different subjects mostly do not.",
		r.ID(), r.Max, r.ID())
	if r.Most() != "" {
		text += fmt.Sprintf(" Granted -3: not decided and not charged, because the keys before it have read %s entries. "+
			"Expect it in calls for more than 15 keys. Ask for these keys again.", r.Calls)
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

// ArgRows returns the rows of the arguments, with the bound of the product.
func (r *repetition) ArgRows() string {
	rows := r.rows("ARGV")
	if r.Bound != "" {
		bounded := slices.Index(fieldNames(r.Args), r.Product)
		rows[bounded] = strings.Replace(rows[bounded], ";", fmt.Sprintf(", K * %s up to %s;", r.Product, r.Bound), 1)
	}
	return strings.Join(rows, "")
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
