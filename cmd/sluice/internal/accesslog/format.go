package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-redis/sluice/policy"
)

// Format reads the lines of one log. It is safe for concurrent use.
type Format struct {
	Zone *time.Location // of times without one; nil: they are errors
	Peer string         // the address of the connection, where the line has none

	pattern *pattern // nil: whichever a line is
	own     map[string]bool
}

// NewFormat returns the format of a pattern, which is a log_format of nginx. Without a pattern each line that begins
// with { is JSON, and every other one is of HAProxy or of Envoy, or in the combined or the common format. Attributes is
// the names that the application passes beside user.key and user.plan.
func NewFormat(text string, attributes []string) (*Format, error) {
	f := &Format{own: map[string]bool{userKey: true, "user.plan": true}}
	for _, name := range attributes {
		f.own[name] = true
	}
	if text == "" {
		return f, nil
	}
	var err error
	f.pattern, err = newPattern(text)
	return f, err
}

// Parse reads a line.
func (f *Format) Parse(line []byte) (Entry, error) {
	d := draft{own: f.own, zone: f.Zone}
	d.Request = &policy.Request{}
	if err := cmp.Or(f.read(line, &d), d.setPeer(f.Peer)); err != nil {
		return Entry{}, err
	}
	e, err := d.finish()
	if err != nil && f.pattern == nil && isJSON(line) {
		err = fmt.Errorf("%w under a name that Caddy, Traefik or the variables of nginx have: see --format", err)
	}
	if err == nil && !isInRange(e.At) { // because of its duration
		err = fmt.Errorf("the request began in %d: want one of the years 1971 to 2200", e.At.UTC().Year())
	}
	return e, err
}

func (f *Format) read(line []byte, d *draft) error {
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return errors.New("it is empty")
	case f.pattern != nil:
		return f.pattern.parse(string(line), d)
	case isJSON(line):
		return parseJSON(line, d)
	}
	for _, parse := range []func(string, *draft) (bool, error){parseEnvoy, parseHAProxy} {
		if ok, err := parse(string(bytes.TrimSpace(line)), d); ok {
			return err
		}
	}
	return combined.parse(string(joinAddresses(line)), d)
}

func isJSON(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t\ufeff"), []byte("{")) }
