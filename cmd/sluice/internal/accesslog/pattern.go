package accesslog

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// pattern is a log_format of nginx: texts and the variables between them.
type pattern struct {
	parts    []part
	required int  // parts that a line must have
	open     bool // more may follow
}

// part is a text, which may be empty, and the variable behind it, which may be "".
type part struct{ text, variable string }

var variable = regexp.MustCompile(`\$(?:\{([A-Za-z0-9_.]+)\}|([A-Za-z0-9_]+))`)

// combined is the combined log format, of which the common one is the beginning. Many servers add fields at the end.
var combined = func() *pattern {
	p, _ := newPattern(`$remote_addr $ident $remote_user [$time_local] "$request" $status $body_bytes_sent`)
	p.required = len(p.parts)
	more, _ := newPattern(` "$http_referer" "$http_user_agent"`)
	p.parts = append(p.parts[:p.required-1], more.parts...)
	p.required, p.open = p.required-1, true
	return p
}()

// newPattern reads a log_format.
func newPattern(text string) (*pattern, error) {
	p, end := &pattern{}, 0
	for _, at := range variable.FindAllStringSubmatchIndex(text, -1) {
		between := text[end:at[0]]
		if between == "" && end > 0 {
			return nil, fmt.Errorf("the variable %s follows another without a text between them", text[at[0]:at[1]])
		}
		end = at[1]
		p.parts = append(p.parts, part{between, strings.Trim(text[at[0]+1:at[1]], "{}")})
	}
	if len(p.parts) == 0 {
		return nil, errors.New("it has no variables such as $remote_addr")
	}
	p.parts = append(p.parts, part{text: text[end:]})
	p.required = len(p.parts)
	return p, nil
}

// parse sets what the line has.
func (p *pattern) parse(line string, d *draft) error {
	rest, escaped := line, strings.Contains(line, `\`)
	for i, this := range p.parts {
		after, found := strings.CutPrefix(rest, this.text)
		if !found && i >= p.required {
			return nil
		}
		if !found {
			return fmt.Errorf("it has %.40q where the format has %q", rest, this.text)
		}
		if rest = after; this.variable == "" {
			break
		}
		end := valueEnd(rest, this.text, p.following(i), escaped)
		switch {
		case end < 0 && i >= p.required:
			return nil
		case end < 0 && i+1 == p.required: // nothing has to follow
			end = len(rest)
		case end < 0:
			return fmt.Errorf("it has no %q behind $%s", p.following(i), this.variable)
		}
		value := rest[:end]
		if rest = rest[end:]; escaped {
			value = unescape(value)
		}
		if err := d.set(this.variable, value); err != nil {
			return err
		}
	}
	if rest != "" && !p.open {
		return fmt.Errorf("it has %.40q behind its end", rest)
	}
	return nil
}

// following returns the text behind the variable of part i, "" at the end.
func (p *pattern) following(i int) string {
	if i+1 < len(p.parts) {
		return p.parts[i+1].text
	}
	return ""
}

// valueEnd returns where a value ends: where the text behind it begins, or -1. In quotes a quote may be escaped.
func valueEnd(rest, before, behind string, escaped bool) int {
	if behind == "" {
		return len(rest)
	}
	if !escaped || !strings.HasSuffix(before, `"`) || behind[0] != '"' {
		return strings.Index(rest, behind)
	}
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '\\':
			i++
		case strings.HasPrefix(rest[i:], behind):
			return i
		}
	}
	return -1
}

// unescape reads what nginx and Apache write for characters that are not printable: \x0a, \n, \", and \u000a in JSON.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var out []byte
	for text != "" {
		if text[0] != '\\' || len(text) == 1 {
			out, text = append(out, text[0]), text[1:]
			continue
		}
		character, multibyte, tail, err := strconv.UnquoteChar(text, '"')
		switch {
		case text[1] == '/': // JSON
			out, text = append(out, '/'), text[2:]
		case err != nil:
			out, text = append(out, text[0]), text[1:]
		case multibyte:
			out, text = append(out, string(character)...), tail
		default:
			out, text = append(out, byte(character)), tail
		}
	}
	return string(out)
}
