package policy

import (
	"regexp"
	"regexp/syntax"
)

// maxSteps bounds the patterns of an expression, in steps of stepsOf. A step takes 5 to 20 ns, so they
// take two milliseconds, and more with classes such as \pL.
const maxSteps = 32 * maxText

// stepsOf is the most steps that a match takes on a text of so many bytes: for each byte, the instructions of the
// pattern that can be reached there. It stops counting above maxSteps.
func stepsOf(re *regexp.Regexp, bytes int) int {
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return 0
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0
	}
	anchored := prog.StartCond()&syntax.EmptyBeginText != 0
	w := &walk{prog: prog, visited: make([]int, len(prog.Inst))}
	from := []uint32{uint32(prog.Start)}
	for w.at = 1; w.at <= bytes+1 && len(from) > 0 && w.steps <= maxSteps; w.at++ {
		w.next = nil
		for _, pc := range from {
			w.visit(pc)
		}
		from = w.next
		if !anchored {
			from = append(from, uint32(prog.Start))
		}
	}
	return w.steps
}

// walk visits the instructions that can be reached at a byte of a text, whatever the text is.
type walk struct {
	prog    *syntax.Prog
	visited []int // the byte at which an instruction was last visited
	at      int   // from 1
	next    []uint32
	steps   int
}

func (w *walk) visit(pc uint32) {
	if w.visited[pc] == w.at {
		return
	}
	w.visited[pc] = w.at
	w.steps++
	switch in := w.prog.Inst[pc]; in.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		w.visit(in.Out)
		w.visit(in.Arg)
	case syntax.InstEmptyWidth:
		// The beginning of the text is at its first byte only.
		if syntax.EmptyOp(in.Arg)&syntax.EmptyBeginText == 0 || w.at == 1 {
			w.visit(in.Out)
		}
	case syntax.InstCapture, syntax.InstNop:
		w.visit(in.Out)
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		w.next = append(w.next, in.Out)
	case syntax.InstMatch, syntax.InstFail:
	}
}
