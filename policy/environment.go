package policy

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// function is a function or an operator of the standard library, with those of its overloads that are known here.
func function(name string, ids ...string) *env.Function {
	f := env.NewFunction(name)
	for _, id := range ids {
		f.Overloads = append(f.Overloads, &env.Overload{ID: id})
	}
	return f
}

// standard is what expressions may use of CEL's standard library: no macros, so no loops.
var standard = &env.LibrarySubset{DisableMacros: true, IncludeFunctions: []*env.Function{
	function("_&&_"), function("_||_"), function("!_"), function("_?_:_"), function("_==_"), function("_!=_"),
	function("_<_", overloads.LessInt64), function("_<=_", overloads.LessEqualsInt64),
	function("_>_", overloads.GreaterInt64), function("_>=_", overloads.GreaterEqualsInt64),
	function("_+_", overloads.AddInt64, overloads.AddString),
	function("_-_", overloads.SubtractInt64), function("_*_", overloads.MultiplyInt64),
	function("_/_", overloads.DivideInt64), function("_%_", overloads.ModuloInt64), function("-_", overloads.NegateInt64),
	function("@in", overloads.InList, overloads.InMap), function("_[_]", overloads.IndexMap),
	function("startsWith"), function("endsWith"), function("contains"), function("matches"),
	function("size", overloads.SizeString, overloads.SizeStringInst),
	function("int", overloads.StringToInt), function("string", overloads.IntToString),
}}

// newEnvironment returns the variables and functions of one kind of expression.
func newEnvironment(variables []variable, lists map[string]networks) (*cel.Env, error) {
	opts := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(standard)),
		cel.Function("ip", cel.Overload("ip_string_int", []*cel.Type{cel.StringType, cel.IntType}, cel.StringType,
			cel.BinaryBinding(celIP))),
		cel.Function("lowerAscii", cel.MemberOverload("string_lower_ascii", []*cel.Type{cel.StringType}, cel.StringType,
			cel.UnaryBinding(celLowerASCII))),
	}
	opts = append(opts, networkFunctions...)
	for name, list := range lists {
		opts = append(opts, cel.Constant(name, networksType, list))
	}
	for _, v := range variables {
		opts = append(opts, cel.Variable(v.name, v.kind))
	}
	return cel.NewCustomEnv(opts...)
}

// celLowerASCII is the function lowerAscii of expressions.
func celLowerASCII(text ref.Val) ref.Val {
	return types.String(lowerASCII(string(text.(types.String))))
}

func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// celIP is the function ip of expressions.
func celIP(address, bits ref.Val) ref.Val {
	text, err := networkOf(string(address.(types.String)), int(bits.(types.Int)))
	if err != nil {
		return types.WrapErr(err)
	}
	return types.String(text)
}
