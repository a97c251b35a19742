package policy

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"github.com/sluice-redis/sluice/policy/internal/yamlfile"
)

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	dotted     = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*`)
	overload   = regexp.MustCompile(`^found no matching overload for '@?_?([^_']+)_?\]?' applied to '(?:.*\.)?(\(.*\))'$`)
	openQuote  = regexp.MustCompile(`token recognition error at: '["']`)
	wrongType  = regexp.MustCompile(`^expected type '(.*)' but found '(.*)'$`)
)

// hyphenated is a header, a cookie or a parameter with a hyphen in its name, which CEL reads as a subtraction.
var hyphenated = regexp.MustCompile(`request\.(header|query|cookie)\.([A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)+)`)

// symbol is a text in quotes, a run of signs or a name.
var symbol = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[!<>=~]+|&+|\|+|\.?\w+`)

// operators is the operators of other languages, and what they are in CEL.
var operators = map[string]string{
	"=": "==", "===": "==", "!==": "!=", "<>": "!=", "=>": ">=", "=<": "<=", "=~": `text.matches("..")`,
	"&": "&&", "|": "||", "and": "&&", "or": "||", "not": "!",
}

// maxProblems is how many problems of one expression are told. CEL has the same number.
const maxProblems = 100

// foreign finds what is no CEL and has a cure.
func (c *compiler) foreign(text string) (problems []problem) {
	if at := hyphenated.FindStringSubmatchIndex(text); at != nil {
		problems = append(problems, problemAt(text, at[0], text[at[0]:at[1]]+" is a subtraction",
			fmt.Sprintf("request.%s[%q]", text[at[2]:at[3]], text[at[4]:at[5]])))
	}
	for _, at := range symbol.FindAllStringIndex(text, -1) {
		if len(problems) == maxProblems {
			break
		}
		found := text[at[0]:at[1]]
		if want := operators[strings.ToLower(found)]; want != "" && !slices.Contains(c.names, found) {
			problems = append(problems, problemAt(text, at[0], fmt.Sprintf("unknown operator %q", found), want))
		}
	}
	return problems
}

// problemAt is a problem at a byte of an expression.
func problemAt(text string, at int, what, want string) problem {
	before := text[:at]
	column := utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:])
	return problem{line: strings.Count(before, "\n") + 1, column: column, what: what, want: want}
}

// problems puts CEL's errors into words.
func (c *compiler) problems(text string, env *cel.Env, issues *cel.Issues) (problems []problem) {
	problems = c.foreign(text)
	if problems != nil {
		return problems
	}
	for _, e := range issues.Errors() {
		p := problem{line: e.Location.Line(), column: e.Location.Column()}
		message := strings.ReplaceAll(e.Message, " (in container '')", "")
		if found := undeclared.FindStringSubmatch(message); found != nil {
			p.what, p.want, p.column = c.unknownName(textAt(text, p.line, p.column), env, found[1], p.column)
		} else {
			p.what, p.want = explain(message)
		}
		problems = append(problems, p)
	}
	return problems
}

func explain(message string) (what, want string) {
	if found := overload.FindStringSubmatch(message); found != nil {
		return fmt.Sprintf("%s does not take %s", found[1], found[2]), formsOf(found[1])
	}
	if found := wrongType.FindStringSubmatch(message); found != nil {
		return "of type " + found[2], found[1]
	}
	message, _, _ = strings.Cut(message, " expecting ")
	if strings.Contains(message, "missing ')' at '<EOF>'") {
		return "syntax error: a parenthesis is missing", "as many ) as (; in [..] and {..} a comma ends an expression, " +
			"unless it stands in quotes"
	}
	if found := openQuote.FindString(message); found != "" {
		return "syntax error: a quote is missing", `texts between two quotes, as in "POST"`
	}
	if syntax, ok := strings.CutPrefix(message, "Syntax error: "); ok {
		return "syntax error: " + syntax, "an expression in CEL"
	}
	return message, "an expression in CEL"
}

// unknownName explains a variable or a function that is not on the list, and finds where it begins: CEL says where its
// last dot or its parenthesis is.
func (c *compiler) unknownName(at string, env *cel.Env, name string, column int) (what, want string, begins int) {
	if strings.HasPrefix(at, "(") {
		what, want = yamlfile.Unknown("function", name, functionNames)
		return what, want, column - len(name)
	}
	if strings.HasPrefix(at, ".") {
		column -= strings.LastIndex(name, ".")
	} else {
		name = dotted.FindString(at)
	}
	if strings.HasPrefix(name, nameStatus) {
		return nameStatus + " is not known before the response", "it in count only", column
	}
	if c.forService {
		for _, value := range slices.Sorted(maps.Keys(c.ofApplication)) {
			if strings.HasPrefix(name+".", value+".") {
				return value + ": " + noApplication, wantRequest, column
			}
		}
	}
	if list, found := strings.CutPrefix(name, "networks."); found {
		list, _, _ = strings.Cut(list, ".")
		lists := slices.DeleteFunc(slices.Clone(c.names), func(n string) bool { return !strings.HasPrefix(n, "networks.") })
		want = strings.Join(lists, ", ") + yamlfile.DidYouMean("networks."+list, lists...)
		return "no list " + list + " in networks", cmp.Or(want, "networks: {"+list+": [10.0.0.0/8]}"), column
	}
	known := c.names
	if env == c.counts {
		known = append(slices.Clone(known), nameStatus)
	}
	what, want = yamlfile.Unknown("name", name, known)
	first, _, _ := strings.Cut(name, ".")
	if first != "request" && first != "response" && !c.forService && yamlfile.Likely(name, known) == "" {
		want += "; what else the application passes is named in attributes, and a text stands in quotes"
	}
	return what, want, column
}

// What is said where a file for a service asks for an application's values.
const (
	noApplication = "sluiced has no values of an application"
	wantRequest   = `what the proxy passes: request.header["x-user"], say, or an entry of a descriptor`
)

// textAt is what stands at a place of an expression.
func textAt(text string, line, column int) string {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	runes := []rune(lines[line-1])
	return string(runes[min(max(column, 0), len(runes)):])
}
