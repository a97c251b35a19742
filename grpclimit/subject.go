package grpclimit

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// How values are coded in a subject.
const (
	separator     = "|"
	noValue       = "~"  // a value that is empty
	longValue     = "~2" // before the hash of a long one
	maxValueBytes = 128
)

var escaper = strings.NewReplacer("~", "~0", "|", "~1")

// Subject returns the subject under which calls with these values are counted. Use it to look a subject up or to
// unblock it: login.Reset(ctx, grpclimit.Subject("192.0.2.7", "ada")).
//
// Values are joined by "|". In a value "~" is written ~0 and "|" is written ~1. An empty value is written ~, and one of
// more than 128 bytes as ~2 and its SHA-256 hash in unpadded base64url, so that no caller can store long keys. So
// different lists of values have different subjects, and most values are written as they are.
func Subject(values ...string) string {
	if len(values) == 1 {
		return code(values[0])
	}
	coded := make([]string, len(values))
	for i, value := range values {
		coded[i] = code(value)
	}
	return strings.Join(coded, separator)
}

func code(value string) string {
	switch {
	case value == "":
		return noValue
	case len(value) > maxValueBytes:
		hash := sha256.Sum256([]byte(value))
		return longValue + base64.RawURLEncoding.EncodeToString(hash[:])
	}
	return escaper.Replace(value)
}
