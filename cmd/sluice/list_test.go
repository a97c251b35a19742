package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

func TestList(t *testing.T) {
	got := sluiceRun(nil, "list")
	wantNarrow(t, "list", got.stdout)
	for _, script := range sluice.All() {
		for _, want := range []string{script.Name + " ", script.SHA1, strings.Join(argNames(script), " ") + "\n"} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("%q is not in\n%s", want, got.stdout)
			}
		}
	}
}

func TestListJSON(t *testing.T) {
	got := runLine(nil, "list gcra_v1.lua --json")
	var all []listed
	if err := json.Unmarshal([]byte(got.stdout), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].SHA1 != sluice.GCRAV1SHA1 || all[0].File != "gcra_v1.lua" || len(all[0].Args) != 5 {
		t.Errorf("%+v", all)
	}
}

func TestFindScript(t *testing.T) {
	for _, name := range []string{"zset_log", "zset_log_v1", "zset_log_v1.lua"} {
		script, err := findScript(name)
		if err != nil || script.SHA1 != sluice.ZSetLogV1SHA1 {
			t.Errorf("%s: %s, %v", name, script.File, err)
		}
	}
	for _, name := range []string{"", "zset", "zset_log_v2"} {
		if script, err := findScript(name); err == nil {
			t.Errorf("%q: %s", name, script.File)
		}
	}
}
