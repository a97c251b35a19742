package policy

import (
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
)

// What would cost too much, if the estimate had let it through, ends when it runs.
func TestCostLimit(t *testing.T) {
	c, err := newCompiler(nil, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	const costly = "request.path.matches(request.host)"
	for text, kind := range map[string]*cel.Type{
		costly: cel.BoolType, costly + ` ? "a" : "b"`: cel.StringType, "string(size(request.path)) + " +
			"request.header[" + costly + ` ? "a" : "b"]`: cel.StringType,
	} {
		checked, issues := c.rules.Compile(text)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		e := &expression{checked: checked.NativeRep().Expr()}
		if err := e.prepare(c.rules, checked, kind); err != nil {
			t.Fatal(err)
		}
		for n, wantErr := range map[int]bool{8: false, 1024: true} {
			v := newValues(Attributes{Request: &Request{
				Path: strings.Repeat("/", n), Host: strings.Repeat("/", n),
			}})
			var err error
			if kind == cel.BoolType {
				_, err = e.holds(v)
			} else {
				_, err = e.text(v)
			}
			if (err != nil) != wantErr || wantErr && !strings.Contains(err.Error(), "cost limit exceeded") {
				t.Errorf("%s of %d bytes: %v", text, n, err)
			}
		}
	}
}
