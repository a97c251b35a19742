package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/parse"
)

// integerFunction begins every body that has arguments of another type than str. It parses numbers in the same way on
// all servers. 0 and 1 are the most frequent arguments, so they skip the pattern match.
const integerFunction = `local function integer(text, least, most)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < least or n > most then return nil end
  return n
end`

// A prologue is the beginning of a body. The header determines it: the function integer, the checks of the numbers of
// KEYS and ARGV, the keys, then each argument with its check, in order.
type prologue struct {
	tokens []token
	next   int
}

func (p *prologue) check(s *script) error {
	if slices.ContainsFunc(s.Args, func(f field) bool { return f.Type != "str" }) {
		if err := p.want(integerFunction); err != nil {
			return err
		}
	}
	if err := p.wantAll(keysCount(s), argvCount(s)); err != nil {
		return err
	}
	if s.KeyGroup == nil {
		if err := p.want(keyLocals(s)); err != nil {
			return err
		}
	}
	for i, f := range plain(s.Args) {
		if err := p.argument(f, fmt.Sprintf("ARGV[%d]", i+1)); err != nil {
			return err
		}
	}
	if s.Group == nil {
		return nil
	}
	return p.group(s)
}

func keysCount(s *script) string {
	if g := s.KeyGroup; g != nil {
		return fmt.Sprintf("if #KEYS < %d or #KEYS > %d then "+
			`return redis.error_reply("BADARG KEYS: want %[1]d to %[2]d") end`,
			g.Min, g.Max)
	}
	return fmt.Sprintf(`if #KEYS ~= %d then return redis.error_reply("BADARG KEYS: want %[1]d") end`, len(s.Keys))
}

func argvCount(s *script) string {
	alone := int64(len(plain(s.Args)))
	if g := s.Group; g != nil {
		return fmt.Sprintf("if #ARGV < %d or #ARGV > %d or #ARGV %% 2 == %d then "+
			`return redis.error_reply("BADARG ARGV: want %d and %d to %d pairs") end`,
			alone+2*g.Min, alone+2*g.Max, 1-alone%2, alone, g.Min, g.Max)
	}
	return fmt.Sprintf(`if #ARGV ~= %d then return redis.error_reply("BADARG ARGV: want %[1]d") end`, alone)
}

func keyLocals(s *script) string {
	reads := make([]string, len(s.Keys))
	for i := range s.Keys {
		reads[i] = fmt.Sprintf("KEYS[%d]", i+1)
	}
	return fmt.Sprintf("local %s = %s", strings.Join(keyNames(s), ", "), strings.Join(reads, ", "))
}

// argument checks that an argument is read into a local of its name and refused if it is out of range.
func (p *prologue) argument(f field, read string) error {
	if f.Type != "str" {
		return p.wantAll(integerRead(f, read), integerError(f, f.Name))
	}
	tooLong := fmt.Sprintf("if #%s > %d", f.Name, f.Max)
	if f.Min > 0 {
		tooLong = fmt.Sprintf("if #%s < %d or #%[1]s > %[3]d", f.Name, f.Min, f.Max)
	}
	if err := p.wantAll(fmt.Sprintf("local %s = %s", f.Name, read), tooLong); err != nil {
		return err
	}
	p.skipTo("then")
	if err := p.want("then return redis.error_reply("); err != nil {
		return err
	}
	text, wanted := p.tokens[p.next], "BADARG "+f.Name+": want "
	if text.kind != parse.TString || !strings.HasPrefix(text.text, wanted) {
		return refuse(text.at, "found %s, want %q and the wanted values", text, wanted)
	}
	p.next++
	return p.want(") end")
}

func integerRead(f field, read string) string {
	return fmt.Sprintf("local %s = integer(%s, %d, %d)", f.Name, read, f.Min, f.Max)
}

// integerError returns the code that refuses an argument by its name.
func integerError(f field, name string) string {
	return fmt.Sprintf(`if not %s then return redis.error_reply("BADARG %s: want %d..%d") end`,
		f.Name, name, f.Min, f.Max)
}

// group checks the loop over the pairs. The script may have other code before it.
func (p *prologue) group(s *script) error {
	alone := len(plain(s.Args))
	p.skipTo("for")
	loop := fmt.Sprintf("for i = 1, #ARGV / 2 - %d do", alone/2)
	if alone%2 == 1 {
		loop = fmt.Sprintf("for i = 1, (#ARGV - %d) / 2 do", alone)
	}
	if err := p.want(loop); err != nil {
		return err
	}
	for i, f := range repeated(s.Args) {
		read := fmt.Sprintf("ARGV[2 * i + %d]", alone-1+i)
		name := strings.TrimSuffix(f.Name, "i") + `" .. i .. "`
		if err := p.wantAll(integerRead(f, read), integerError(f, name)); err != nil {
			return err
		}
	}
	return nil
}

func (p *prologue) wantAll(codes ...string) error {
	for _, code := range codes {
		if err := p.want(code); err != nil {
			return err
		}
	}
	return nil
}

// want moves past the tokens of code, which must come next.
func (p *prologue) want(code string) error {
	wanted, err := scan("", code)
	if err != nil {
		return err
	}
	for _, w := range wanted[:len(wanted)-1] {
		found := p.tokens[p.next]
		if !found.is(w) {
			return refuse(found.at, "found %s, want %s in: %s", found, w, strings.Join(strings.Fields(code), " "))
		}
		p.next++
	}
	return nil
}

// skipTo moves past other code, up to a word or to a read of KEYS or ARGV.
func (p *prologue) skipTo(word string) {
	for {
		t := p.tokens[p.next]
		if t.kind == parse.EOF || t.kind != parse.TString && (t.text == word || t.isRead()) {
			return
		}
		p.next++
	}
}

// rest refuses reads of KEYS and ARGV after the prologue. A script for many keys goes through KEYS, and may ask for the
// length of ARGV.
func (p *prologue) rest(s *script) error {
	var refusals []error
	for i, t := range p.tokens[p.next:] {
		length := p.tokens[p.next+i-1].text == "#"
		if t.isRead() && (s.KeyGroup == nil || t.text != "KEYS" && !length) {
			refusals = append(refusals, refuse(t.at, "%s is read again, want each read once, at the top, into a local", t.text))
		}
	}
	return errors.Join(refusals...)
}

func (t token) isRead() bool {
	return t.kind == parse.TIdent && (t.text == "KEYS" || t.text == "ARGV")
}
