package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice"
)

func (a app) list(_ context.Context, args []string) error {
	names, err := parseFlags(newFlags("list"), args)
	if err != nil {
		return err
	}
	scripts, err := findScripts(names)
	if err != nil {
		return err
	}
	out := newScreen(a.stdout)
	for _, script := range scripts {
		out.printf("%s  %s\n  KEYS %s  ARGV %s\n", script.SHA1, out.paint(green, fullName(script)),
			strings.Join(keyNames(script), " "), strings.Join(argNames(script), " "))
	}
	return nil
}

// namesOf returns the name of each field.
func namesOf[T, N any](all []T, name func(T) N) (names []N) {
	for _, one := range all {
		names = append(names, name(one))
	}
	return names
}

func keyNames(script sluice.Script) []string {
	return namesOf(script.Keys, func(key sluice.Key) string {
		if key.Repeated {
			return key.Name + " .."
		}
		return key.Name
	})
}

func argNames(script sluice.Script) []string {
	return namesOf(script.Args, func(arg sluice.Field) string { return arg.Name })
}

// fullName returns a script's name with its version, such as "gcra_v1".
func fullName(script sluice.Script) string {
	return script.Name + "_v" + strconv.Itoa(script.Version)
}

// findScripts returns the named scripts, or all scripts if there are no names.
func findScripts(names []string) ([]sluice.Script, error) {
	if len(names) == 0 {
		return sluice.All(), nil
	}
	var found []sluice.Script
	for _, name := range names {
		script, err := findScript(name)
		if err != nil {
			return nil, err
		}
		found = append(found, script)
	}
	return found, nil
}

// findScript returns the script with a name: "gcra" is the newest version, "gcra_v1" or "gcra_v1.lua" is version 1.
func findScript(name string) (sluice.Script, error) {
	var newest sluice.Script
	var known []string
	for _, script := range sluice.All() {
		if name == fullName(script) || name == script.File {
			return script, nil
		}
		if name == script.Name && script.Version > newest.Version {
			newest = script
		}
		known = append(known, fullName(script))
	}
	if newest.Version == 0 {
		return sluice.Script{}, usagef("there is no script %s: want one of %s", given(name), strings.Join(known, ", "))
	}
	return newest, nil
}
