package luasyntax

import (
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// A Token is a word of a source and where its bytes stand in it.
type Token struct {
	ast.Token
	From, To int // Source[From:To]
}

// A Span is a run of tokens, both ends included.
type Span struct{ First, Last int }

// Places says where the nodes of a tree stand in their source. The parser keeps lines only; the columns and
// texts come from walking the tree and the tokens side by side, for the tree is the tokens in their order.
type Places struct {
	Source    string
	Tokens    []Token // the last one is the end of the file
	Spans     map[ast.PositionHolder]Span
	Operators map[ast.PositionHolder]int // the token of an operator

	next      int // the first token that no node has taken
	ambiguous int // the line of the first call whose parenthesis begins it, or 0
}

// Locate finds the nodes of the tree that the parser made of source.
func Locate(source string, tree []ast.Stmt) *Places {
	tokens, _ := Scan(source) // the parser has taken it
	p := &Places{
		Source:    source,
		Tokens:    tokens,
		Spans:     map[ast.PositionHolder]Span{},
		Operators: map[ast.PositionHolder]int{},
	}
	p.block(tree)
	return p
}

// Scan cuts a source into tokens. The last one is the end of the file, also behind a word that is none of Lua's, which
// is the error: a *parse.Error.
func Scan(source string) (tokens []Token, err error) {
	scanner := parse.NewScanner(strings.NewReader(source), "")
	starts := lineStarts(source)
	for {
		t, err := scanner.Scan(&parse.Lexer{})
		if err != nil || t.Type == parse.EOF {
			return append(tokens, Token{Token: ast.Token{Type: parse.EOF}, From: len(source), To: len(source)}), err
		}
		tokens = append(tokens, Token{
			Token: t,
			From:  starts[t.Pos.Line-1] + t.Pos.Column - 1,
			To:    starts[scanner.Pos.Line-1] + scanner.Pos.Column,
		})
	}
}

// lineStarts is where each line begins; a line ends as Lua ends it, with \n, \r or both.
func lineStarts(source string) []int {
	starts := []int{0}
	for i := 0; i < len(source); i++ {
		if source[i] != '\n' && source[i] != '\r' {
			continue
		}
		if i+1 < len(source) && source[i+1] != source[i] && (source[i+1] == '\n' || source[i+1] == '\r') {
			i++
		}
		starts = append(starts, i+1)
	}
	return starts
}

// Text is a node as it is written.
func (p *Places) Text(node ast.PositionHolder) string {
	from, to := p.Bytes(node)
	return p.Source[from:to]
}

// FirstLine is the text of a node as far as it stands on the line where it begins.
func (p *Places) FirstLine(node ast.PositionHolder) string {
	text, _, cut := strings.Cut(p.Text(node), "\n")
	if cut {
		return strings.TrimRight(text, " \r") + " .."
	}
	return text
}

// Bytes is where a node's text begins and ends.
func (p *Places) Bytes(node ast.PositionHolder) (from, to int) {
	s := p.Spans[node]
	return p.Tokens[s.First].From, p.Tokens[s.Last].To
}

// At is the line and the column where a node begins, both counted from 1.
func (p *Places) At(node ast.PositionHolder) (line, column int) {
	pos := p.Tokens[p.Spans[node].First].Pos
	return pos.Line, pos.Column
}

// seek takes the tokens up to the next one of a type, and returns that one.
func (p *Places) seek(types ...int) int {
	for ; p.next < len(p.Tokens)-1; p.next++ {
		for _, t := range types {
			if p.Tokens[p.next].Type == t {
				p.next++
				return p.next - 1
			}
		}
	}
	return p.next
}

func (p *Places) nextIs(kind int) bool { return p.Tokens[p.next].Type == kind }

func (p *Places) block(stmts []ast.Stmt) {
	for _, s := range stmts {
		for p.nextIs(';') {
			p.next++
		}
		first := p.statement(s)
		p.Spans[s] = Span{first, p.next - 1}
	}
}

// statement takes the tokens of a statement and returns its first one.
func (p *Places) statement(s ast.Stmt) (first int) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		p.exprs(s.Lhs)
		p.exprs(s.Rhs)
		return p.Spans[s.Lhs[0]].First
	case *ast.FuncCallStmt:
		p.expr(s.Expr)
		return p.Spans[s.Expr].First
	case *ast.LocalAssignStmt:
		return p.local(s)
	case *ast.FuncDefStmt:
		first = p.seek(parse.TFunction)
		p.exprs(Expressions(s))
		p.function(s.Func)
	case *ast.IfStmt:
		return p.branch(s)
	case *ast.ReturnStmt:
		first = p.seek(parse.TReturn)
		p.exprs(s.Exprs)
	case *ast.BreakStmt:
		first = p.seek(parse.TBreak)
	case *ast.DoBlockStmt:
		first = p.seek(parse.TDo)
		p.block(s.Stmts)
		p.seek(parse.TEnd)
	case *ast.GotoStmt:
		first = p.seek(parse.TGoto)
		p.seek(parse.TIdent)
	case *ast.LabelStmt:
		first = p.seek(parse.T2Colon)
		p.seek(parse.T2Colon)
	default:
		return p.loop(s)
	}
	return first
}

func (p *Places) loop(s ast.Stmt) (first int) {
	switch s := s.(type) {
	case *ast.WhileStmt:
		first = p.seek(parse.TWhile)
		p.expr(s.Condition)
		p.body(s.Stmts)
	case *ast.RepeatStmt:
		first = p.seek(parse.TRepeat)
		p.block(s.Stmts)
		p.seek(parse.TUntil)
		p.expr(s.Condition)
	case *ast.NumberForStmt:
		first = p.seek(parse.TFor)
		p.seek('=')
		p.exprs(Expressions(s))
		p.body(s.Stmts)
	case *ast.GenericForStmt:
		first = p.seek(parse.TFor)
		p.seek(parse.TIn)
		p.exprs(s.Exprs)
		p.body(s.Stmts)
	}
	return first
}

func (p *Places) body(stmts []ast.Stmt) {
	p.seek(parse.TDo)
	p.block(stmts)
	p.seek(parse.TEnd)
}

func (p *Places) local(s *ast.LocalAssignStmt) (first int) {
	first = p.seek(parse.TLocal)
	if p.nextIs(parse.TFunction) {
		f := s.Exprs[0].(*ast.FunctionExpr)
		p.function(f)
		p.Spans[f] = Span{first + 1, p.next - 1}
		return first
	}
	for range s.Names {
		p.seek(parse.TIdent)
	}
	p.exprs(s.Exprs)
	return first
}

// branch is an if or an elseif; to the tree the latter is an if alone in the else of the former.
func (p *Places) branch(s *ast.IfStmt) (first int) {
	first = p.seek(parse.TIf, parse.TElseIf)
	p.expr(s.Condition)
	p.seek(parse.TThen)
	p.block(s.Then)
	if len(s.Else) > 0 {
		if kind := p.seek(parse.TElse, parse.TElseIf); p.Tokens[kind].Type == parse.TElseIf {
			p.next--
		}
		p.block(s.Else)
	}
	if p.Tokens[first].Type == parse.TIf {
		p.seek(parse.TEnd)
	}
	return first
}

func (p *Places) function(f *ast.FunctionExpr) {
	p.seek('(')
	p.seek(')')
	p.block(f.Stmts)
	p.seek(parse.TEnd)
}

func (p *Places) exprs(list []ast.Expr) {
	for _, e := range list {
		p.expr(e)
	}
}

// expr takes an expression with the parentheses round it, of which the tree knows nothing.
func (p *Places) expr(e ast.Expr) {
	begin := p.next
	p.operand(e)
	open := 0
	for _, t := range p.Tokens[begin:p.next] {
		switch t.Type {
		case '(':
			open++
		case ')':
			open--
		}
	}
	for ; open > 0 && p.nextIs(')'); open-- {
		p.next++
	}
	p.Spans[e] = Span{p.begin(begin, open, e), p.next - 1}
}

// begin is the first token of an expression among those from a token on: past what separates it from the
// one before, and past so many parentheses that are not its own.
func (p *Places) begin(from, foreign int, e ast.Expr) int {
	own := p.leftmost(e)
	for i := from; i < own; i++ {
		switch {
		case p.Tokens[i].Type != '(':
		case foreign > 0:
			foreign--
		default:
			return i
		}
	}
	return own
}

// leftmost is the first token of an expression that is not a parenthesis.
func (p *Places) leftmost(e ast.Expr) int {
	first := p.Spans[e].First
	for p.Tokens[first].Type == '(' {
		first++
	}
	return first
}

// operand takes an expression without the parentheses round it, and notes its first token.
func (p *Places) operand(e ast.Expr) {
	first := 0
	switch e := e.(type) {
	case *ast.AttrGetExpr:
		first = p.index(e)
	case *ast.FuncCallExpr:
		first = p.call(e)
	case *ast.TableExpr:
		first = p.table(e)
	case *ast.FunctionExpr:
		first = p.seek(parse.TFunction)
		p.function(e)
	case *ast.LogicalOpExpr:
		first = p.binary(e, e.Lhs, e.Rhs, parse.TAnd, parse.TOr)
	case *ast.RelationalOpExpr:
		first = p.binary(e, e.Lhs, e.Rhs, '<', '>', parse.TLte, parse.TGte, parse.TEqeq, parse.TNeq)
	case *ast.ArithmeticOpExpr:
		first = p.binary(e, e.Lhs, e.Rhs, '+', '-', '*', '/', '%', '^')
	case *ast.StringConcatOpExpr:
		first = p.binary(e, e.Lhs, e.Rhs, parse.T2Comma)
	case *ast.UnaryMinusOpExpr:
		first = p.unary(e, e.Expr, '-')
	case *ast.UnaryNotOpExpr:
		first = p.unary(e, e.Expr, parse.TNot)
	case *ast.UnaryLenOpExpr:
		first = p.unary(e, e.Expr, '#')
	default:
		first = p.seek(parse.TIdent, parse.TNumber, parse.TString, parse.TNil, parse.TTrue, parse.TFalse, parse.T3Comma)
	}
	p.Spans[e] = Span{first, p.next - 1}
}

func (p *Places) binary(e, left, right ast.Expr, types ...int) (first int) {
	p.expr(left)
	p.Operators[e] = p.seek(types...)
	p.expr(right)
	return p.leftmost(left)
}

func (p *Places) unary(e, operand ast.Expr, kind int) (first int) {
	first = p.seek(kind)
	p.Operators[e] = first
	p.expr(operand)
	return first
}

func (p *Places) index(e *ast.AttrGetExpr) (first int) {
	p.expr(e.Object)
	if dot := p.seek('.', '['); p.Tokens[dot].Type == '.' {
		p.seek(parse.TIdent)
	} else {
		p.expr(e.Key)
		p.seek(']')
	}
	return p.leftmost(e.Object)
}

func (p *Places) call(e *ast.FuncCallExpr) (first int) {
	called := e.Func
	if e.Receiver != nil {
		called = e.Receiver
	}
	p.expr(called)
	if e.Receiver != nil {
		p.seek(':')
		p.seek(parse.TIdent)
	}
	open := p.seek('(', '{', parse.TString)
	if p.Tokens[open].Type != '(' {
		p.next-- // f"text" and f{}
		p.exprs(e.Args)
	} else {
		p.checkLine(open)
		p.exprs(e.Args)
		p.seek(')')
	}
	return p.leftmost(called)
}

// checkLine notes a parenthesis that stands on another line than what it calls.
func (p *Places) checkLine(open int) {
	line := p.Tokens[open].Pos.Line
	if p.ambiguous == 0 && strings.ContainsAny(p.Source[p.Tokens[open-1].To:p.Tokens[open].From], "\r\n") {
		p.ambiguous = line
	}
}

func (p *Places) table(e *ast.TableExpr) (first int) {
	first = p.seek('{')
	for _, field := range e.Fields {
		if field.Key != nil {
			if bracket := p.seek('[', parse.TIdent); p.Tokens[bracket].Type == '[' {
				p.expr(field.Key)
				p.seek(']')
			}
			p.seek('=')
		}
		p.expr(field.Value)
	}
	p.seek('}')
	return first
}
