// Package subjects codes lists of values as subjects of limiters, for the middleware.
package subjects

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

const (
	separator     = "|"
	noValue       = "~"  // a value that is empty
	longValue     = "~2" // before the hash of a long one
	maxValueBytes = 128
)

var escaper = strings.NewReplacer("~", "~0", "|", "~1")

// Join returns the subject of a list of values. Different lists have different subjects. The doc of httplimit.Subject
// says how values are written.
func Join(values ...string) string {
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
