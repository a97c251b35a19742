package main

import (
	"embed"
	"strings"
)

// usageFiles holds what sluice help <command> prints. A line {{target}} stands for the flags that name a deployment.
//
//go:embed usage
var usageFiles embed.FS

func usageOf(command string) string {
	return strings.Replace(usageFile(command), "{{target}}\n", usageFile("target"), 1)
}

func usageFile(name string) string {
	text, err := usageFiles.ReadFile("usage/" + name + ".txt")
	if err != nil {
		panic(err) // the files are part of the program
	}
	return string(text)
}
