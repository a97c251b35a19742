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

	"github.com/yuin/gopher-lua/ast"

	"github.com/sluice-redis/sluice/internal/luasyntax"
)

// A script for many keys is made from the script for one. This line in the body of x_v1 says so, and for how many keys:
//
//	-- MANY: x_many_v1 repeats what follows for 1..64 keys.
//	-- MANY: x_many_v1 repeats what follows for 1..64 keys, keys * permits up to 1000, 256 calls of f.
//
// The arguments are the same for all keys. After so many calls of the function f the other keys are not decided:
// granted -3. That bounds the cost of a call.
//
// The statements before the line are run once for all keys. Those behind it become the function decide, in which a
// reply {.., now} or {.., now, unpack(counts)} is returned without now, and counts as a table. The header is made from
// the script's (many_header.go). Where the script takes a key for each member of a group, decide takes the keys of one
// subject.
var manyPattern = regexp.MustCompile(
	`^-- MANY: ([a-z0-9_]+) repeats what follows for 1\.\.([1-9][0-9]*) keys` +
		`(?:, keys \* ([a-z_]+) up to ([1-9][0-9]*), ([1-9][0-9]*) calls of ([a-z_]+))?\.$`)

const (
	manyMark  = "-- MANY"
	manyFiles = "_many_v" // in the names of the scripts that are made
)

var manyTemplate = template.Must(template.New("many.tmpl").Funcs(template.FuncMap{
	"join": func(words []string) string { return strings.Join(words, ", ") },
}).ParseFS(templateFiles, "many.tmpl"))

// A repetition is what the template needs to write the script for many keys.
type repetition struct {
	*script        // for one key
	Max     string // number of keys
	Bound   string // of the product of keys and the argument Product; "" if there is none
	Product string
	Counted string // the function whose calls are bounded; "" if none is
	Calls   string

	Once, Each string // the body before the mark, and the body of decide
}

// manyScripts makes the scripts for many keys.
func manyScripts(tree fs.FS, scripts []*script) (made []*script, err error) {
	for _, s := range scripts {
		source, err := manySource(s)
		if err != nil {
			return nil, err
		}
		if source == "" {
			continue
		}
		many, err := parseScript(tree, "scripts/"+s.manyID()+".lua", source)
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
	words := manyPattern.FindStringSubmatch(lines[mark])
	if words == nil || words[1] != s.manyID() {
		return "", refuse(at, "found %q, want %q, perhaps with %q before the full stop", lines[mark],
			manyMark+": "+s.manyID()+" repeats what follows for 1..<max> keys.",
			", keys * <argument> up to <max>, <max> calls of <function>")
	}
	if alone := plain(s.Reply); len(s.Keys) != 1 || len(alone) == 0 || alone[len(alone)-1].Name != "now" {
		return "", refuse(at, "a script with %d keys whose reply has %s, want one key, and now as the last field that is "+
			"not repeated", len(s.Keys), strings.Join(fieldNames(s.Reply), ", "))
	}
	r := &repetition{script: s, Max: words[2], Product: words[3], Bound: words[4], Calls: words[5], Counted: words[6]}
	if err := r.split(at); err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := manyTemplate.Execute(&b, r); err != nil {
		panic(err) // the template fits the type: the scripts run it
	}
	return b.String(), nil
}

// split makes Once and Each of the statements before the mark and behind it.
func (r *repetition) split(mark place) error {
	tree, err := parseLua(mark.file, r.Source)
	if err != nil {
		return err
	}
	begin, body := lineStart(r.Source, mark.line), lineStart(r.Source, r.body)
	end := begin + strings.Index(r.Source[begin:], "\n") + 1
	once, each := tree.statements, []ast.Stmt{}
	for i, s := range tree.statements {
		from, to := tree.places.Bytes(s)
		if from < begin && to > begin {
			return refuse(mark, "a mark inside a statement, want it between two")
		}
		if from > begin {
			once, each = tree.statements[:i], tree.statements[i:]
			break
		}
	}
	e := editor{tree: tree, source: r.Source}
	args := r.parts[0]
	e.replace(lineStart(r.Source, args.at.line+1), lineStart(r.Source, args.last+1), arguments(r.forMany()))
	if r.Bound != "" && (!r.bound(&e, once) || !r.count(&e, once)) {
		return refuse(mark, "a bound of keys * %s and of calls, want a local that holds redis.call(\"TIME\"), "+
			"and the function %s, before", r.Product, r.Counted)
	}
	for _, s := range returnsOf(each) {
		r.withoutNow(&e, s)
	}
	r.Once = strings.TrimRight(unmarked(e.text(body, begin)), "\n") + "\n"
	r.Each = indented(unmarked(strings.TrimPrefix(e.text(end, len(r.Source)), "\n")))
	return nil
}

// bound puts the check of the product before the clock is read.
func (r *repetition) bound(e *editor, once []ast.Stmt) bool {
	i := slices.IndexFunc(once, func(s ast.Stmt) bool {
		local, ok := s.(*ast.LocalAssignStmt)
		return ok && len(local.Exprs) == 1 && e.tree.places.Text(local.Exprs[0]) == `redis.call("TIME")`
	})
	if i < 0 {
		return false
	}
	from, _ := e.tree.places.Bytes(once[i])
	e.replace(from, from, fmt.Sprintf(`if #KEYS * %s > %s then
  return redis.error_reply("BADARG %[1]s: want keys * %[1]s up to %[2]s")
end

`, r.Product, r.Bound))
	return true
}

// count counts the calls of the function Counted.
func (r *repetition) count(e *editor, once []ast.Stmt) bool {
	for _, s := range once {
		local, ok := s.(*ast.LocalAssignStmt)
		if !ok || local.Names[0] != r.Counted || len(local.Exprs) != 1 {
			continue
		}
		f, ok := local.Exprs[0].(*ast.FunctionExpr)
		if !ok || len(f.Stmts) == 0 {
			continue
		}
		from, _ := e.tree.places.Bytes(s)
		e.replace(from, from, "local calls = 0 -- of "+r.Counted+", for all keys\n")
		first, _ := e.tree.places.Bytes(f.Stmts[0])
		e.replace(first, first, "calls = calls + 1\n  ")
		return true
	}
	return false
}

// withoutNow turns a reply into the values that decide returns.
func (r *repetition) withoutNow(e *editor, s *ast.ReturnStmt) {
	reply, ok := s.Exprs[0].(*ast.TableExpr)
	if !ok {
		return
	}
	var values []string
	for i, f := range reply.Fields {
		value := e.tree.places.Text(f.Value)
		if i > len(r.Fields()) { // unpack(counts)
			value = e.tree.places.Text(f.Value.(*ast.FuncCallExpr).Args[0])
		}
		if i != len(r.Fields()) {
			values = append(values, value)
		}
	}
	from, to := e.tree.places.Bytes(reply)
	e.replace(from, to, strings.Join(values, ", "))
}

// returnsOf are the returns of statements and of the blocks in them, without those of functions.
func returnsOf(statements []ast.Stmt) (found []*ast.ReturnStmt) {
	for _, s := range statements {
		if r, ok := s.(*ast.ReturnStmt); ok && len(r.Exprs) > 0 {
			found = append(found, r)
		}
		for _, block := range luasyntax.BlocksOf(s) {
			found = append(found, returnsOf(block)...)
		}
	}
	return found
}

// forMany returns the script with its keys for many subjects.
func (r *repetition) forMany() *script {
	many := *r.script
	most, _ := strconv.ParseInt(r.Max, 10, 64)
	many.KeyGroup = &group{Name: "subject", Min: 1, Max: most}
	return &many
}

// unmarked is a text without the lines that mark printed parts.
func unmarked(text string) string { return marksPattern.ReplaceAllString(text, "") }

func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			b.WriteString("  ")
		}
		b.WriteString(line)
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
		return tableOf(f.Name)
	}
	return ""
}

// Decided are the locals that hold what decide returns.
func (r *repetition) Decided() string {
	return strings.TrimSuffix(strings.Join(append(r.Fields(), r.Counts()), ", "), ", ")
}

// Undecided are their values for a key that is not decided, behind the first.
func (r *repetition) Undecided() string {
	values := strings.Repeat(", 0", len(r.Fields())-1)
	if r.Counts() != "" {
		values += ", {}"
	}
	return values
}

// Key is the parameter of decide: the key of one subject, or the table of its keys.
func (r *repetition) Key() string { return keyLocals(r.script)[0] }

// Places are where the replies for one key go.
func (r *repetition) Places() []string {
	places := make([]string, len(r.Fields()))
	for i := range places {
		places[i] = fmt.Sprintf("reply[n + %d]", i+1)
	}
	return places
}
