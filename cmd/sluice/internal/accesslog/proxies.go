package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
)

// haproxy is a line of HAProxy's option httplog or httpslog, with what syslog may have written in front. Captured headers
// have no names, so they are not read.
var haproxy = regexp.MustCompile(`^(?:[^"]*\]: )?(\S+) \[([^\]]+)\] \S+ \S+/\S+ (?:[+-]?\d+/){4}[+-]?\d+ (-?\d+) ` +
	`\+?\d+ \S+ \S+ \S{4} (?:\d+/){4}\+?\d+ \d+/\d+ (?:\{.*\} )?"([^"]*)"(?: [^"]*)?$`)

// envoy is a line of Envoy's default access log, which does not escape quotes in a User-Agent.
var envoy = regexp.MustCompile(`^\[([^\]]+)\] "(\S+) (\S+) (\S+)" (\d+) \S+ .*?` +
	`"([^"]*)" "(.*?)" "[^"]*" "([^"]*)" "[^"]*"`)

// parseHAProxy sets what a line of HAProxy has. Its time is that of the request, by the clock of a zone.
func parseHAProxy(line string, d *draft) (ok bool, err error) {
	found := haproxy.FindStringSubmatch(line)
	if found == nil {
		return false, nil
	}
	d.Request.IP = found[1][:max(strings.LastIndexByte(found[1], ':'), 0)] // ::1:3317 has a port, and no brackets
	if found[4] == "<BADREQ>" {
		return true, errors.New("it has no request: HAProxy could not read one")
	}
	if d.began, err = d.parseTime(found[2]); err != nil {
		return true, err
	}
	if err = d.setRequest(found[4]); err != nil {
		return true, err
	}
	return true, d.setStatus(found[3])
}

// parseEnvoy sets what a line of Envoy has. Its time is the request's begin. It has no address of the connection.
func parseEnvoy(line string, d *draft) (ok bool, err error) {
	found := envoy.FindStringSubmatch(line)
	if found == nil {
		return false, nil
	}
	if d.began, err = d.parseTime(found[1]); err != nil {
		return true, err
	}
	for i, name := range map[int]string{6: "X-Forwarded-For", 7: "User-Agent"} {
		if found[i] != "-" {
			d.setHeader(name, found[i])
		}
	}
	if found[8] != "-" {
		d.Request.Host = found[8]
	}
	d.Request.Method = found[2]
	if err = d.setURI(found[3]); err != nil {
		return true, err
	}
	return true, d.setStatus(found[5])
}

// setForwarded takes several addresses where a log has one: what proxies wrote, and the last proxy.
func (d *draft) setForwarded(text string) {
	left, last := "", text
	if comma := strings.LastIndexByte(text, ','); comma >= 0 {
		left, last = strings.TrimSpace(text[:comma]), strings.TrimSpace(text[comma+1:])
	}
	if left != "" {
		d.setHeader("X-Forwarded-For", left)
	}
	d.Request.IP = address(last)
}

// address is an address without its port.
func address(text string) string {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().String()
	}
	return strings.Trim(text, "[]")
}

// joinAddresses writes the addresses at the begin of a line as one field: 192.0.2.7,10.0.0.1.
func joinAddresses(line []byte) []byte {
	for at := bytes.IndexByte(line, ' '); at > 0 && line[at-1] == ','; at = bytes.IndexByte(line, ' ') {
		line = append(line[:at:at], line[at+1:]...)
	}
	return line
}

// setPeer sets the address of the connection that a line does not have.
func (d *draft) setPeer(peer string) error {
	switch {
	case d.Request.IP != "":
	case peer != "":
		d.Request.IP = peer
	case len(d.Request.Header[http.CanonicalHeaderKey("X-Forwarded-For")]) > 0:
		return fmt.Errorf("it has X-Forwarded-For and no address of the connection: give that of the proxy by --peer")
	}
	return nil
}
