package main

import "fmt"

// A place is a position in a file, lines and columns counted from 1.
type place struct {
	file      string
	line, col int
}

// A refusal says what the generator does not accept, where it is, and what is wanted.
type refusal struct {
	at   place
	text string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", r.at.file, r.at.line, r.at.col, r.text)
}

// refuse returns a refusal. The tests have a case for each.
func refuse(at place, format string, args ...any) error {
	return &refusal{at, fmt.Sprintf(format, args...)}
}
