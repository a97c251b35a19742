package accesslog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fields is one line of JSON.
type fields map[string]json.RawMessage

// text returns a value as text: a string, or a number as it is written. It is "" if there is none, or an object.
func (f fields) text(name string) (text string) {
	raw := f[name]
	switch {
	case len(raw) == 0 || strings.ContainsRune("{[n", rune(raw[0])): // n is null
		return ""
	case raw[0] != '"':
		return string(raw)
	}
	_ = json.Unmarshal(raw, &text) // it is a string
	return text
}

// parseJSON sets what a line of JSON has.
func parseJSON(line []byte, d *draft) error {
	var f fields
	if err := json.Unmarshal(line, &f); err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	for name := range d.own {
		f.setOwn(d, name)
	}
	request := f["request"]
	switch {
	case len(request) > 0 && request[0] == '{':
		return f.caddy(request, d)
	case f["DownstreamStatus"] != nil, f["RequestMethod"] != nil:
		return f.traefik(d)
	}
	return f.nginx(d)
}

// setOwn sets an attribute of the application, which stands under its name, or as a field of an object: user.plan is
// the field plan of user.
func (f fields) setOwn(d *draft, name string) {
	inner, field := f, name
	if first, rest, dotted := strings.Cut(name, "."); dotted && f[name] == nil && json.Unmarshal(f[first], &inner) == nil {
		field = rest
	}
	if inner[field] != nil {
		d.setValue(name, inner.text(field))
	}
}

// caddy reads a line of Caddy. Its ts is the time of the end.
func (f fields) caddy(request json.RawMessage, d *draft) error {
	var r fields
	if err := json.Unmarshal(request, &r); err != nil {
		return fmt.Errorf("its request is no JSON: %w", err)
	}
	var headers map[string][]string
	_ = json.Unmarshal(r["headers"], &headers) // what it can read
	for name, values := range headers {
		d.setHeader(name, values...)
	}
	for _, name := range []string{"remote_addr", "remote_ip", "client_ip"} { // the last one knows trusted proxies
		if address := r.text(name); address != "" {
			d.setForwarded(address)
		}
	}
	d.Request.Method, d.Request.Host, d.user = r.text("method"), r.text("host"), f.text("user_id")
	return cmp.Or(d.setEnd("msec", f.text("ts")), d.setTook(f.text("duration")), d.setURI(r.text("uri")),
		d.setStatus(f.text("status")))
}

// traefik reads a line of Traefik. Its durations are nanoseconds.
func (f fields) traefik(d *draft) error {
	for name := range f {
		if header, ok := strings.CutPrefix(name, "request_"); ok {
			d.setHeader(header, f.text(name))
		}
	}
	d.setForwarded(f.text("ClientHost"))
	if user := f.text("ClientUsername"); user != "-" {
		d.user = user
	}
	d.Request.Method, d.Request.Host = f.text("RequestMethod"), f.text("RequestHost")
	var timeErr error
	switch {
	case f["StartUTC"] != nil:
		d.began, timeErr = d.parseTime(f.text("StartUTC"))
	case f["StartLocal"] != nil:
		d.began, timeErr = d.parseTime(f.text("StartLocal"))
	default:
		took, _ := strconv.ParseInt(f.text("Duration"), 10, 64)
		d.took = max(time.Duration(took), 0)
		timeErr = d.setEnd("time_iso8601", f.text("time"))
	}
	return cmp.Or(timeErr, d.setURI(f.text("RequestPath")), d.setStatus(f.text("DownstreamStatus")))
}

// nginxNames is the variables of nginx in the order in which they are set.
var nginxNames = append([]string{"remote_addr", "remote_user", "request", "request_method", "request_uri", "uri",
	"args", "query_string", "server_name", "host", "http_host", "status", "request_time"}, times...)

// nginx reads a line whose fields have the names of the variables of nginx.
func (f fields) nginx(d *draft) error {
	for _, name := range nginxNames {
		if value := f.text(name); value != "" {
			if err := d.set(name, value); err != nil {
				return err
			}
		}
	}
	for name := range f {
		d.setNamed(name, f.text(name))
	}
	return nil
}
