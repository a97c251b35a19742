package scripttest_test

import (
	"regexp"
	"slices"
)

// ringSubject is what the keys of a subject's rings begin with.
const ringSubject = "t:x:{u}:sr1:"

// keysOf are the keys of a call: those of the table, of which the subject's has a ring for each window.
func (tab table) keysOf(args []string) (keys []string) {
	if tab.script.Group == nil {
		return tab.keys
	}
	once, subjects := len(tab.fields(0)), len(tab.keys)
	each := len(tab.fields(1)) - once
	if tab.script.KeyGroup == nil {
		subjects = 1
	}
	for _, subject := range tab.keys[:subjects] {
		for window := range slices.Chunk(args[min(once, len(args)):], each) {
			if len(window) > 1 {
				keys = append(keys, subject+window[0]+"x"+window[1])
			}
		}
	}
	return append(keys, tab.keys[subjects:]...)
}

var ringsWritten = regexp.MustCompile(`\$(\d)/([0-9.]+[a-z]+)x(\d+)`)

// ringKey is the key of $1/1sx3, a ring of the first subject.
func (tab table) ringKey(written string) string {
	parts := ringsWritten.FindStringSubmatch(written)
	subject := slices.Concat(tab.keys, tab.more)[parts[1][0]-'1']
	return subject + inMicroseconds(parts[2]) + "x" + parts[3]
}
