package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/policy"
)

// Entry is one request of a log.
type Entry struct {
	At         time.Time // when the request began, as far as the log says
	Attributes policy.Attributes
}

// draft is an entry while its fields are read.
type draft struct {
	policy.Attributes
	own  map[string]bool // names of the application's attributes
	zone *time.Location  // of times without one

	began, ended time.Time
	endedBy      int // how exactly: see times
	took         time.Duration
	user         string
}

// finish returns the entry. A log that has no time of the beginning has one of the end, which most servers write, and
// may have the duration.
func (d *draft) finish() (Entry, error) {
	at := d.began
	if at.IsZero() {
		at = d.ended.Add(-d.took)
	}
	if d.ended.IsZero() && d.began.IsZero() {
		return Entry{}, errors.New("it has no time")
	}
	if d.Request.Method == "" {
		return Entry{}, errors.New("it has no request")
	}
	if _, given := d.Values[userKey]; !given && d.user != "" {
		d.setValue(userKey, d.user)
	}
	return Entry{At: at, Attributes: d.Attributes}, nil
}

// userKey is the attribute that the user of a log is, unless the log has one of that name.
const userKey = "user.key"

func (d *draft) setValue(name, value string) {
	if d.Values == nil {
		d.Values = map[string]string{}
	}
	d.Values[name] = value
}

// times is the variables of nginx that hold the time of the end, the most exact one last.
var times = []string{"time_local", "time_iso8601", "msec"}

// set sets a field by its name: a variable of nginx, or an attribute of the application. Other names are ignored.
func (d *draft) set(name, value string) (err error) {
	if d.own[name] {
		d.setValue(name, value)
		return nil
	}
	if value == "-" {
		value = ""
	}
	switch name {
	case "time_local", "time_iso8601", "msec":
		return d.setEnd(name, value)
	case "request_time":
		return d.setTook(value)
	case "remote_addr":
		d.setForwarded(value)
	case "remote_user":
		d.user = value
	case "request":
		return d.setRequest(value)
	case "request_method":
		d.Request.Method = value
	case "request_uri", "uri":
		if name == "uri" && d.Request.Path != "" {
			return nil // it may be rewritten
		}
		return d.setURI(value)
	case "args", "query_string":
		d.setQuery(value)
	case "host", "http_host", "server_name":
		if d.Request.Host == "" || name == "http_host" {
			d.Request.Host = value
		}
	case "status":
		return d.setStatus(value)
	default:
		d.setNamed(name, value)
	}
	return nil
}

// setNamed sets a header, a cookie or a parameter of the query, if the request had it.
func (d *draft) setNamed(name, value string) {
	if value == "" {
		return
	}
	kind, key, _ := strings.Cut(name, "_")
	switch kind {
	case "http":
		d.setHeader(strings.ReplaceAll(key, "_", "-"), value)
	case "cookie":
		d.Request.Cookie = with(d.Request.Cookie, key, value)
	case "arg":
		d.Request.Query = with(d.Request.Query, key, value)
	}
}

func (d *draft) setHeader(name string, values ...string) {
	name = http.CanonicalHeaderKey(name)
	d.Request.Header = with(d.Request.Header, name, values...)
	if name != "Cookie" {
		return
	}
	for _, line := range values {
		cookies, _ := http.ParseCookie(line) // those that it can read
		for _, c := range cookies {
			d.Request.Cookie = with(d.Request.Cookie, c.Name, c.Value)
		}
	}
}

// with returns a map that has these values for a key.
func with[M ~map[string][]string](m M, key string, values ...string) M {
	if m == nil {
		m = M{}
	}
	m[key] = values
	return m
}

// setRequest takes a request line: GET /path HTTP/1.1.
func (d *draft) setRequest(line string) error {
	method, rest, found := strings.Cut(line, " ")
	uri, protocol, hasProtocol := strings.Cut(rest, " ")
	if !found || !hasProtocol || !strings.HasPrefix(protocol, "HTTP/") || strings.ContainsAny(method, "\\\x00") {
		return fmt.Errorf("the request is %.60q: want METHOD URI HTTP/VERSION", line)
	}
	d.Request.Method = method
	return d.setURI(uri)
}

func (d *draft) setURI(uri string) error {
	if uri == "" || uri == "*" {
		d.Request.Path = uri
		return nil
	}
	if !strings.ContainsAny(uri, "%?:\\ ") && uri[0] == '/' {
		d.Request.Path = uri
		return nil
	}
	parsed, err := url.ParseRequestURI(uri)
	if err != nil {
		return fmt.Errorf("the URI is %.60q: want a path", uri)
	}
	d.Request.Path = parsed.Path
	if parsed.Host != "" {
		d.Request.Host = parsed.Host
	}
	d.setQuery(parsed.RawQuery)
	return nil
}

func (d *draft) setQuery(text string) {
	if text != "" {
		d.Request.Query, _ = url.ParseQuery(text) // what it can read
	}
}

func (d *draft) setStatus(text string) error {
	status, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("the status is %.20q: want a number", text)
	}
	d.Status = status
	return nil
}

// setEnd sets when the request ended, from one of times. The most exact one that the line has counts.
func (d *draft) setEnd(name, text string) error {
	by := 1
	for i, known := range times {
		if known == name {
			by += i
		}
	}
	if by < d.endedBy {
		return nil
	}
	at, err := d.parseTime(text)
	d.ended, d.endedBy = at, by
	return err
}

// setTook sets how long the request took: seconds, or a number with a unit.
func (d *draft) setTook(text string) error {
	took, err := time.ParseDuration(text)
	if seconds, notNumber := strconv.ParseFloat(text, 64); notNumber == nil {
		took, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if text != "" && (err != nil || took < 0) {
		return fmt.Errorf("the duration is %.20q: want seconds", text)
	}
	d.took = took
	return nil
}

// timeLayouts is how servers write times. Each has the offset from UTC, so that a change to summer time does not
// matter.
var timeLayouts = []string{"02/Jan/2006:15:04:05 -0700", time.RFC3339, "2006-01-02T15:04:05.999999999Z0700"}

// withoutZone is a time of HAProxy.
const withoutZone = "02/Jan/2006:15:04:05"

// parseTime reads a time, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970.
func (d *draft) parseTime(text string) (time.Time, error) {
	if text != "" && strings.Trim(text, "0123456789.") == "" {
		return parseNumber(text)
	}
	for _, layout := range timeLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return inRange(at, text)
		}
	}
	if at, err := time.ParseInLocation(withoutZone, text, cmp.Or(d.zone, time.UTC)); err == nil {
		if d.zone == nil {
			return at, fmt.Errorf("the time %.40q has no zone: give it by --zone, as in --zone Europe/Berlin", text)
		}
		return inRange(at, text)
	}
	return time.Time{}, fmt.Errorf("the time is %.40q: want a time with its offset from UTC, or seconds since 1970", text)
}

func parseNumber(text string) (time.Time, error) {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the time is %.40q: want one number", text)
	}
	unit := time.Second
	for unit > 1 && number >= 1e11 { // the year 5138 in seconds, 1973 in milliseconds
		number, unit = number/1000, unit/1000
	}
	return inRange(time.UnixMicro(int64(math.Round(number*1e6))), text)
}

// inRange refuses times that a server's clock cannot have shown.
func inRange(at time.Time, text string) (time.Time, error) {
	if !isInRange(at) {
		return time.Time{}, fmt.Errorf("the time is %.40q: want one of the years 1971 to 2200", text)
	}
	return at, nil
}

func isInRange(at time.Time) bool { return 1971 <= at.Year() && at.Year() <= 2200 }
