package play

import (
	"net/url"
	"strings"
	"testing"
)

func ownLink(lua string) string {
	return "lanes=own,list_log&rate=0&calls=0s,1ms,2ms&denied=wait&tries=2&lua=" + url.QueryEscape(lua)
}

// What a pasted script answers is granted or denied; what is none of that is an error that says what is wanted.
func TestOwnScript(t *testing.T) {
	for _, test := range []struct {
		name, lua string
		first     answer
		err       string // of the first call
	}{
		{"an array", `return {1, 4, 0}`, answer{granted, 4, 0, 0}, ""},
		{"booked", `return {1, 4, 20}`, answer{booked, 4, 20, 0}, ""},
		{"denied", `return {0, 0, 20}`, answer{denied, 0, 20, 0}, ""},
		{"denied, no time", `return {0, 2}`, answer{denied, 2, unknown, 0}, ""},
		{"a wait below 0", `return {1, -4, -20}`, answer{granted, unknown, 0, 0}, ""},
		{"a wait of ages", `return {1, 0, 2^62}`, answer{granted, 0, 0, 0}, ""},
		{"an integer", `return 1`, answer{granted, unknown, 0, 0}, ""},
		{"0", `return 0`, answer{denied, unknown, unknown, 0}, ""},
		{"false", `return false`, answer{denied, unknown, unknown, 0}, ""},
		{"nothing", ``, answer{}, "the text of the lane own"},
		{"its arguments", `return #KEYS + #ARGV == 6 and ARGV[1] == "5" and ARGV[2] == "1000000" and ARGV[3] == "1" and
			ARGV[4] == "1893456000000000" and ARGV[5] == "1" and KEYS[1] == "sluice:play:{everybody}:own"`,
			answer{granted, unknown, 0, 0}, ""},
		{"a text", `return "yes"`, noAnswer,
			`the reply is "yes": want {granted, remaining, wait}, an integer or nil`},
		{"no integers", `return {"1"}`, noAnswer, `the reply is {"1"}: want`},
		{"an empty array", `return {}`, noAnswer, "the reply is {}: want"},
		{"an error reply", `return redis.error_reply("BADARG limit")`, noAnswer, "BADARG limit"},
		{"a syntax error", `return (`, noAnswer,
			"ERR Error compiling script (new function): user_script"},
		{"a runtime error", "local x\nreturn x + 1", noAnswer,
			"ERR user_script:2: attempt to perform arithmetic on a nil value script: "},
		{"an unknown command", `return redis.call("NOSUCH")`, noAnswer,
			"ERR Unknown Redis command called from script"},
		{"an unknown global", `return n`, noAnswer,
			"Script attempted to access nonexistent global variable 'n'"},
		{"a string that grows for ever", `local s = "x" while true do s = s .. s end`,
			noAnswer, "does not emulate strings of more than 256 MB; it is not called again"},
		{"what is not emulated", `return redis.setresp(3)`, noAnswer, "does not emulate"},
	} {
		if test.lua == "" {
			if _, err := Open(ownLink("")); err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %s", test.name, err, test.err)
			}
			continue
		}
		run, records := runLink(t, ownLink(test.lua))
		lane := run.Audit().Lanes[0]
		got := answer{records[0].outcome, records[0].remaining, records[0].wait, 0}
		if got != test.first || !strings.Contains(lane.Error, test.err) || (lane.Error == "") != (test.err == "") {
			t.Errorf("%s: %+v, %q; want %+v, %q", test.name, got, lane.Error, test.first, test.err)
		}
		if ours := run.Audit().Lanes[1]; ours.Granted != 3 {
			t.Errorf("%s: the lane beside it: %+v", test.name, ours)
		}
	}
}

// A script that does not end is ended by its budget, once: the rest of the run does not call it.
func TestOwnEndlessLoop(t *testing.T) {
	run, records := runLink(t, "lanes=own&rate=10000&for=1m&lua="+url.QueryEscape("while true do end"))
	lane := run.Audit().Lanes[0]
	if len(records) != maxDecisions || lane.Errors != maxDecisions ||
		!strings.Contains(lane.Error, "still running after 1000000 instructions") {
		t.Errorf("%d decisions: %+v", len(records), lane)
	}
	for _, index := range []int{0, 1, -1} { // the first call loops again; the others are not made
		detail, err := detailOf(run, 0, index)
		if err != nil || !strings.Contains(detail.Error, "still running") || detail.Reply != "" ||
			(len(detail.Lines) > 0) != (index == 0) {
			t.Errorf("%d: %+v, %v", index, detail, err)
		}
	}
}

// An endless loop that only some calls run into ends there, and what was granted before stays in the audit.
func TestOwnEndlessLater(t *testing.T) {
	run, _ := runLink(t, ownLink(`if redis.call("INCR", KEYS[1]) == 2 then repeat until false end return 1`))
	if lane := run.Audit().Lanes[0]; lane.Granted != 1 || lane.Errors != 2 || lane.Windows[0].Most != 1 {
		t.Errorf("%+v", lane)
	}
}

// A pasted script that does not compile has no SHA1, and all else is there.
func TestOwnDoesNotCompile(t *testing.T) {
	run, _ := runLink(t, ownLink("return ("))
	if own := run.Opened().Lanes[0]; own.SHA1 != "" || own.Source != "return (" || own.Kind != "own" {
		t.Errorf("%+v", own)
	}
	detail, err := detailOf(run, 0, -1)
	if err != nil || !strings.Contains(detail.Error, "ERR Error compiling script") || len(detail.Args) != 5 ||
		detail.Reply != "" {
		t.Errorf("%+v, %v", detail, err)
	}
	if stored, err := run.Stored(0); err != nil || len(stored.Keys) > 0 {
		t.Errorf("%+v, %v", stored, err)
	}
}
