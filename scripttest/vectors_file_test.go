package scripttest_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/model"
)

// vectorFile is vectors/<script>.json; its README says what the fields mean.
type vectorFile struct {
	Format    int              `json:"format"`
	Script    string           `json:"script"`
	Timelines []vectorTimeline `json:"timelines"`
}

type vectorTimeline struct {
	Name  string       `json:"name"`
	Steps []vectorStep `json:"steps"`
}

type vectorStep struct {
	At         int64                   `json:"at"`
	Command    []string                `json:"command,omitempty"`
	CommandHex []string                `json:"command_hex,omitempty"`
	Script     string                  `json:"script,omitempty"` // of the call, where it is another one than the file's
	Keys       []string                `json:"keys"`
	Args       []string                `json:"args"`
	ArgsHex    []string                `json:"args_hex,omitempty"`
	Reply      []int64                 `json:"reply,omitempty"`
	Error      string                  `json:"error,omitempty"`
	State      map[string]*vectorValue `json:"state,omitempty"` // nil: the key is gone
}

// vectorValue is what a key holds.
type vectorValue struct {
	String    *string           `json:"string,omitempty"`
	StringHex string            `json:"string_hex,omitempty"`
	SHA1      string            `json:"sha1,omitempty"` // of a string that is too long to be read
	Bytes     int               `json:"bytes,omitempty"`
	List      []string          `json:"list,omitempty"`
	ListHex   []string          `json:"list_hex,omitempty"`
	ZSet      [][2]string       `json:"zset,omitempty"`
	ZSetHex   []string          `json:"zset_hex,omitempty"` // of the members
	Hash      map[string]string `json:"hash,omitempty"`
	Expires   int64             `json:"expires,omitempty"`
	Relative  bool              `json:"relative,omitempty"` // sent as a duration, which counts by the server's clock
}

func vectorPath(script *sluice.Script) string {
	return filepath.Join("vectors", strings.TrimSuffix(script.File, ".lua")+".json")
}

// longest is the most bytes of a string that a vector spells out.
const longest = 512

func vectorValueOf(value model.Value) *vectorValue {
	v := &vectorValue{}
	switch value.Type {
	case "":
		return nil
	case "string":
		if len(value.Text) > longest {
			v.SHA1, v.Bytes = sha1Hex(value.Text), len(value.Text)
		} else {
			text := runesOf(value.Text)
			v.String, v.StringHex = &text, strings.Join(hexOf(value.Text), "")
		}
	case "list":
		v.List, v.ListHex = eachRune(value.List), hexOf(value.List...)
	case "zset":
		var names []string
		for _, m := range value.Ranked() {
			v.ZSet = append(v.ZSet, [2]string{runesOf(m.Name), scoreText(m.Score)})
			names = append(names, m.Name)
		}
		v.ZSetHex = hexOf(names...)
	case "hash":
		v.Hash = map[string]string{}
		for field, text := range value.Hash {
			v.Hash[runesOf(field)] = runesOf(text)
		}
	}
	return v
}

// scoreText is a score without an exponent.
func scoreText(score float64) string {
	if math.IsInf(score, 0) {
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(score, 'f', -1, 64)), "+")
	}
	return strconv.FormatFloat(score, 'f', -1, 64)
}

// written is a file of vectors: a line a step, and nothing but ASCII.
func written(file vectorFile) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"format\": %d, \"script\": %s, \"timelines\": [\n", file.Format, encoded(file.Script))
	for i, tl := range file.Timelines {
		fmt.Fprintf(&out, "{\"name\": %s, \"steps\": [\n", encoded(tl.Name))
		for k, step := range tl.Steps {
			fmt.Fprintf(&out, "  %s%s\n", encoded(step), comma(k, len(tl.Steps)))
		}
		fmt.Fprintf(&out, "]}%s\n", comma(i, len(file.Timelines)))
	}
	out.WriteString("]}\n")
	return out.Bytes()
}

func comma(i, n int) string {
	if i < n-1 {
		return ","
	}
	return ""
}

// encoded is a value as JSON in ASCII.
func encoded(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	var ascii strings.Builder
	for _, r := range strings.TrimSpace(text.String()) {
		if r < 0x7f {
			ascii.WriteRune(r)
		} else {
			fmt.Fprintf(&ascii, `\u%04x`, r)
		}
	}
	return ascii.String()
}

// hexOf returns the texts in hexadecimal, nil if all of them are printable ASCII.
func hexOf(texts ...string) []string {
	printable := !slices.ContainsFunc(texts, func(text string) bool {
		return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
	})
	if printable {
		return nil
	}
	return mapped(texts, func(text string) string { return hex.EncodeToString([]byte(text)) })
}

// runesOf has a character U+0000 to U+00FF for each byte, since a string of JSON is characters.
func runesOf(text string) string {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return string(runes)
}

// bytesOf is the opposite.
func bytesOf(text string) string {
	var bytes []byte
	for _, r := range text {
		bytes = append(bytes, byte(r))
	}
	return string(bytes)
}

func eachRune(words []string) []string { return mapped(words, runesOf) }
func eachByte(words []string) []string { return mapped(words, bytesOf) }

func mapped(words []string, by func(string) string) []string {
	some := make([]string, len(words))
	for i, word := range words {
		some[i] = by(word)
	}
	return some
}
