package loader_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

func TestKeyVectors(t *testing.T) {
	text, err := os.ReadFile("../scripts/keys.json")
	must(t, err)
	var file struct {
		Vectors []struct {
			Prefix, Limiter, Subject, State, Key string
			Parts                                []string
		}
	}
	must(t, json.Unmarshal(text, &file))
	if len(file.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range file.Vectors {
		key, err := loader.Key(v.Prefix, v.Limiter, v.Subject, v.State, v.Parts...)
		var bad *loader.ArgumentError
		if key != v.Key || (v.Key == "") != errors.As(err, &bad) {
			t.Errorf("Key(%q, %q, %q, %q, %q) = %q, %v; want %q", v.Prefix, v.Limiter, v.Subject, v.State, v.Parts, key, err,
				v.Key)
		}
	}
}

// TestKeyPatterns holds Key against the patterns in the scripts' headers.
func TestKeyPatterns(t *testing.T) {
	fill := strings.NewReplacer("<prefix>", "sluice", "<limiter>", "api", "<subject>", "ada", "<slice>", "1000",
		"<size>", "61", "<client>", "me")
	for _, script := range sluice.All() {
		for _, k := range script.Keys {
			want := fill.Replace(k.Pattern)
			_, end, _ := strings.Cut(want, "}:")
			parts := strings.Split(end, ":")
			got, err := loader.Key("sluice", "api", "ada", parts[0], parts[1:]...)
			if err != nil || got != want {
				t.Errorf("%s: Key = %q, %v; want %q", script.File, got, err, want)
			}
		}
	}
}
