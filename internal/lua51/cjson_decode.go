package lua51

import (
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// cjsonDecode reads JSON. What cjson takes or words otherwise than encoding/json ends the run.
func (lib *library) cjsonDecode(c call) int {
	if c.GetTop() != 1 {
		c.argError(1, "expected 1 argument")
	}
	d := &jsonDecoder{call: c, null: lib.null}
	source := c.str(1)
	d.Decoder = json.NewDecoder(strings.NewReader(source))
	d.UseNumber()
	if !json.Valid([]byte(source)) {
		c.unsupported("cjson.decode of " + source)
	}
	return c.push(d.value(d.next(), 0))
}

type jsonDecoder struct {
	*json.Decoder
	call call
	null lua.LValue
}

func (d *jsonDecoder) next() json.Token {
	token, err := d.Token()
	if err != nil && err != io.EOF {
		d.call.unsupported("cjson.decode: " + err.Error())
	}
	return token
}

func (d *jsonDecoder) value(token json.Token, depth int) lua.LValue {
	switch token := token.(type) {
	case string:
		return lua.LString(d.text(token))
	case json.Number:
		x, _ := strtod(token.String())
		return lua.LNumber(x)
	case bool:
		return lua.LBool(token)
	case json.Delim:
		if depth == maxJSONDepth {
			d.call.unsupported("cjson.decode of more than 1000 levels")
		}
		return d.table(token == '[', depth+1)
	}
	return d.null
}

// text refuses what encoding/json puts a U+FFFD for: bytes that are not UTF-8, and half a pair of surrogates.
func (d *jsonDecoder) text(s string) string {
	if strings.ContainsRune(s, utf8.RuneError) {
		d.call.unsupported("cjson.decode of a string that is not UTF-8")
	}
	return s
}

func (d *jsonDecoder) table(isArray bool, depth int) lua.LValue {
	table := d.call.NewTable()
	for d.More() {
		if isArray {
			table.Append(d.value(d.next(), depth))
			continue
		}
		name, _ := d.next().(string)
		table.RawSetString(d.text(name), d.value(d.next(), depth))
	}
	d.next()
	return table
}
