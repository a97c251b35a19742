package policy

import (
	"slices"

	"cel.dev/cel-go/cel"
)

const nameStatus = "response.status"

// variable is a name that expressions may use.
type variable struct {
	name string
	kind *cel.Type
}

var textMap = cel.MapType(cel.StringType, cel.StringType)

// requestVariables is what expressions know of a request.
var requestVariables = []variable{
	{"request.method", cel.StringType},
	{"request.path", cel.StringType},
	{"request.host", cel.StringType},
	{"request.ip", cel.StringType},
	{"request.header", textMap},
	{"request.query", textMap},
	{"request.cookie", textMap},
}

// descriptorVariables is what expressions know of a descriptor.
var descriptorVariables = []variable{
	{"domain", cel.StringType},
	{"descriptor", textMap},
	{"keys", cel.StringType},
	{"hits", cel.IntType},
}

// userNames is what the application may pass without naming it in the file.
var userNames = []string{"user.key", "user.plan"}

// functionNames is the functions that expressions may call; functionForms shows how.
var functionNames = []string{"ip", "cidr", "containsIP", "lowerAscii", "startsWith", "endsWith",
	"contains", "matches", "size", "int",
	"string"}

const functionForms = `ip(address, 64), cidr("10.0.0.0/8").containsIP(address), ` +
	`text.lowerAscii(), text.startsWith(".."), text.endsWith(".."), ` +
	`text.contains(".."), text.matches(".."), size(text), int(text), string(number)`

// formsOf shows how an operator or a function is used.
func formsOf(name string) string {
	switch {
	case slices.Contains(functionNames, name):
		return functionForms
	case name == "in":
		return `"x-user" in request.header, request.method in ["GET", "HEAD"]; networks have containsIP`
	case name == "[":
		return `the name of a header, a cookie or a part of the query, as in request.header["x-user"]`
	}
	return "two texts, or two whole numbers; size(text), int(text) and string(number) change between them"
}
