package clientaddr

import "strings"

// hops is what is left of a header to which each proxy appends an element. It is read from the right: only there it was
// written by someone who is trusted.
type hops struct {
	lines []string // those to the left of line
	line  string
	begun bool // the line has elements left
}

// more reports whether an element is left.
func (h *hops) more() bool {
	if last := len(h.lines) - 1; !h.begun && last >= 0 {
		h.lines, h.line, h.begun = h.lines[:last], h.lines[last], true
	}
	return h.begun
}

// take takes what stands behind the comma at an index of the line, the whole line if it is -1.
func (h *hops) take(comma int) (element string) {
	element, h.begun = h.line[comma+1:], comma >= 0
	h.line = h.line[:max(comma, 0)]
	return element
}

// xForwardedFor takes the last element of X-Forwarded-For.
func (h *hops) xForwardedFor() string { return trim(h.take(strings.LastIndexByte(h.line, ','))) }

// forwarded takes the last element of Forwarded, and returns the value of its parameter "for".
func (h *hops) forwarded() string {
	return withoutHiddenPort(forOf(h.take(lastOutsideQuotes(h.line, ','))))
}

// withoutHiddenPort removes a port that the proxy does not tell: "192.0.2.7:_x" is 192.0.2.7 (RFC 7239, section 6.3).
func withoutHiddenPort(node string) string {
	i := strings.LastIndex(node, ":_")
	if i < 0 {
		return node
	}
	host, port := node[:i], node[i+len(":_"):]
	isBare := strings.HasSuffix(host, "]") || !strings.Contains(host, ":") // it has no other port
	if !isBare || port == "" || strings.Trim(port, hiddenCharacters) != "" {
		return node
	}
	return host
}

const hiddenCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// lastOutsideQuotes returns the index of the last separator that is not in a quoted string, -1 if there is none. It
// reads from the right: a quote that a client has left open further left changes nothing.
func lastOutsideQuotes(text string, separator byte) int {
	quoted := false
	for i := len(text) - 1; i >= 0; i-- {
		switch c := text[i]; {
		case c == '"' && !(quoted && isEscaped(text, i)):
			quoted = !quoted
		case c == separator && !quoted:
			return i
		}
	}
	return -1
}

// isEscaped reports whether an odd number of backslashes stands before an index.
func isEscaped(text string, i int) bool {
	before := strings.TrimRight(text[:i], `\`)
	return (i-len(before))%2 == 1
}

// forOf returns the value of the parameter "for" of an element: for=192.0.2.7;proto=https. It is "" if there is not
// exactly one.
func forOf(element string) (value string) {
	for found := false; element != ""; {
		i := lastOutsideQuotes(element, ';')
		name, text, _ := strings.Cut(element[i+1:], "=")
		element = element[:max(i, 0)]
		if !strings.EqualFold(trim(name), "for") {
			continue
		}
		if found {
			return ""
		}
		value, found = unquote(trim(text)), true
	}
	return value
}

// unquote returns the content of a quoted string, and any other text as it is. No address has an escaped character.
func unquote(text string) string {
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		return text[1 : len(text)-1]
	}
	return text
}

// trim removes the white space that a header may have around an element.
func trim(text string) string { return strings.Trim(text, " \t") }
