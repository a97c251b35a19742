package main

import (
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The manifest is for generators of clients: it must be what its schema says.
func TestManifestKeepsItsSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../scripts/manifest.schema.json")
	must(t, err)
	must(t, schema.Validate(readManifest(t)))
	for name, change := range map[string]func(script map[string]any){
		"an unknown field": func(script map[string]any) { script["unknown"] = 1 },
		"a bad sum":        func(script map[string]any) { script["sha1"] = "0" },
		"no rules":         func(script map[string]any) { delete(script, "rules") },
	} {
		manifest := readManifest(t)
		change(manifest["scripts"].([]any)[0].(map[string]any))
		if schema.Validate(manifest) == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
	}
}

func readManifest(t *testing.T) map[string]any {
	t.Helper()
	file, err := os.Open("../../scripts/manifest.json")
	must(t, err)
	defer file.Close()
	value, err := jsonschema.UnmarshalJSON(file)
	must(t, err)
	return value.(map[string]any)
}
