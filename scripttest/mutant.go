package scripttest

import (
	"fmt"
	"iter"

	"github.com/yuin/gopher-lua/ast"

	"github.com/sluice-redis/sluice/internal/luasyntax"
)

// A Mutant is a script with one small fault. Tests that pass with it say nothing about the place where the
// fault is: they are too weak, or the script is larger than it need be.
type Mutant struct {
	Line, Column int    // where the fault is, from 1; a column is a byte
	From, To     string // what stood there and what does now; To is "" of a statement left out

	// Before and After are the line as it is and with the fault, without indentation. With the script's
	// name, and Nth where a script has such a line several times, they name the mutant whatever is
	// changed elsewhere.
	Before, After string
	Nth           int // 1, 2, ..: among the script's mutants with equal Before and After

	script *Script // the sound one
	index  int     // of the fault
}

// String is file:line:column and what was made of what.
func (m Mutant) String() string {
	to := m.To
	if to == "" {
		to = "nothing"
	}
	return fmt.Sprintf("%s:%d:%d: %s -> %s", m.script.Name, m.Line, m.Column, m.From, to)
}

// Compile makes the faulty script, which takes about a millisecond. Its Source and SHA1 are those of the
// sound one, and so is its Budget: set a small one, for some mutants never end. There is no error but
// those of the VM's limits.
func (m Mutant) Compile() (*Script, error) {
	faulty, err := compile(m.script.Name, m.script.Source, func(tree []ast.Stmt, places *luasyntax.Places) []ast.Stmt {
		findFaults(places, tree)[m.index].apply()
		return tree
	})
	if err != nil {
		return nil, err
	}
	faulty.Budget = m.script.Budget
	return faulty, nil
}

// Mutants goes through all mutants of the script, in the order of the source. A fault is
//
//   - <= or >= in place of <, < or > in that of <=, and so on; == and ~= exchanged;
//   - + and - exchanged, * and / exchanged, * in place of % and ^, a minus left out;
//   - and and or exchanged, a not left out, and one put before what a condition asks, be it a variable, a
//     call or an index;
//   - a number 1 larger or smaller, true and false exchanged;
//   - a statement left out; of a local its values only;
//   - two neighbouring arguments of redis.call or redis.pcall exchanged, behind the command's name;
//   - two neighbouring fields of the reply exchanged, where the script returns a table as it is written.
func (s *Script) Mutants() iter.Seq[Mutant] {
	return func(yield func(Mutant) bool) {
		tree, places, err := luasyntax.Parse(s.Source, s.Name)
		if err != nil {
			return // it was compiled, so it parses
		}
		seen := map[[2]string]int{}
		for i, f := range findFaults(places, tree) {
			m := f.mutant(s, i)
			name := [2]string{m.Before, m.After}
			seen[name]++
			m.Nth = seen[name]
			if !yield(m) {
				return
			}
		}
	}
}
