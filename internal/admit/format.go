package admit

import (
	"crypto/sha256"
	"encoding/base64"
	"math"
	"net/netip"
	"strings"
	"time"
)

const (
	separator     = "|"
	noValue       = "~"  // a value that is empty
	longValue     = "~2" // before the hash of a long one
	maxValueBytes = 128
)

var escaper = strings.NewReplacer("~", "~0", "|", "~1")

// Subject returns the subject of a list of values. Different lists have different subjects. The doc of
// httplimit.Subject says how values are written.
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

// code writes one value.
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

// Network returns what an address is counted as: of IPv6 its prefix of so many bits; "" of one that is not valid.
func Network(addr netip.Addr, bits int) string {
	switch {
	case !addr.IsValid():
		return ""
	case addr.Is4() || bits == addr.BitLen():
		return addr.String()
	}
	return netip.PrefixFrom(addr, bits).Masked().String()
}

// IsPrintable reports whether a header can have a text: it is of printable ASCII characters.
func IsPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// Seconds returns a time in whole seconds, rounded up.
func Seconds(d time.Duration) int64 {
	if d > math.MaxInt64-time.Second {
		return math.MaxInt64 / int64(time.Second)
	}
	return int64((d + time.Second - 1) / time.Second)
}

// ShortDuration returns a window as it is written in names and files: "90s" is "1m30s", and "1h0m0s" is "1h".
func ShortDuration(d time.Duration) string {
	text := d.String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zeros) {
			text = text[:len(text)-2]
		}
	}
	return text
}
