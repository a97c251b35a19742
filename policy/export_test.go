package policy

import "slices"

// What tests compare with the page that documents it.
var (
	FileWords     = fileWords
	PolicyWords   = slices.Concat(policyWords, overrideWords)
	FunctionNames = functionNames
)

// Names is the variables of expressions.
func Names() []string {
	names := append([]string{nameStatus}, userNames...)
	for _, v := range requestVariables {
		names = append(names, v.name)
	}
	return names
}
