package policy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/policy/internal/yamlfile"
)

// Attributes is what the expressions of a file may ask about. The zero Attributes is a call outside a request, about
// which the application says nothing.
type Attributes struct {
	// Request is nil outside a request. Policies that ask about the request do not match then.
	Request *Request

	// Descriptor is nil unless a proxy asks about one. Policies that ask about it do not match then.
	Descriptor *Descriptor

	// Values is what the application says: "user.key", "user.plan" and the names in the file's attributes.
	Values map[string]string

	// At is when the call is made. It decides which overrides apply. The zero At is now.
	At time.Time

	// Status is response.status. It is used by Policy.Counts only.
	Status int
}

// Descriptor is what a proxy asks about: domain, descriptor, keys and hits in expressions.
type Descriptor struct {
	Domain  string
	Entries []Entry // in their order
	Hits    int64   // 0 only looks
}

// Entry is one entry of a Descriptor.
type Entry struct{ Key, Value string }

// value is the first value of a key.
func (d *Descriptor) value(key string) (value string, found bool) {
	for _, e := range d.Entries {
		if e.Key == key {
			return e.Value, true
		}
	}
	return "", false
}

// keys is the keys, joined by commas.
func (d *Descriptor) keys() string {
	var b strings.Builder
	for i, e := range d.Entries {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(e.Key)
	}
	return b.String()
}

// Request is the request as the expressions see it. Its maps may be nil.
type Request struct {
	Method string              // request.method: "GET"; of gRPC "POST"
	Path   string              // request.path: "/code"; of gRPC the full method, "/orders.v1.Orders/Create"
	Host   string              // request.host: in lower case there, without a final dot
	IP     string              // request.ip: the client's address, without a port; "" if it has none (a unix socket)
	Header map[string][]string // request.header: names in the form of http.CanonicalHeaderKey
	Query  url.Values          // request.query
	Cookie map[string][]string // request.cookie

	peerErr  error // why there is no IP, if that is not the client's fault
	queryErr error // why a part of the query is not in Query
}

// asEntry makes request.header.x-user of request.header["x-user"].
var asEntry = strings.NewReplacer(`["`, ".", `['`, ".", `"]`, "", `']`, "")

// Set sets an attribute by its name in expressions: request.method, request.header.x-user or request.header["x-user"],
// request.query.page, request.cookie.sid, domain, descriptor.user, hits, response.status, user.key, or a name in the
// file's attributes. Use it for what is typed at a command line. An error says what is wrong with the name or the
// value.
func (f *File) Set(a *Attributes, name, value string) error {
	name = asEntry.Replace(name)
	if rest, ok := strings.CutPrefix(name, "request."); ok {
		if a.Request == nil {
			a.Request = &Request{}
		}
		if a.Request.set(rest, value) {
			return nil
		}
	}
	if key, ok := strings.CutPrefix(name, "descriptor."); ok && key != "" || name == "domain" || name == "hits" {
		return a.setDescriptor(name, key, value)
	}
	if name == nameStatus {
		status, err := strconv.Atoi(value)
		if err != nil || status < 100 || status > 999 {
			return fmt.Errorf("policy: %s is %q: want a number of three digits", nameStatus, value)
		}
		a.Status = status
		return nil
	}
	if !f.ofApplication[name] {
		what, want := yamlfile.Unknown("attribute", name, append(slices.Clone(settable), f.Attributes...))
		return fmt.Errorf("policy: %s: want %s", what, want)
	}
	if a.Values == nil {
		a.Values = map[string]string{}
	}
	a.Values[name] = value
	return nil
}

func (a *Attributes) setDescriptor(name, key, value string) (err error) {
	if a.Descriptor == nil {
		a.Descriptor = &Descriptor{Hits: 1}
	}
	switch d := a.Descriptor; name {
	case "domain":
		d.Domain = value
	case "hits":
		if d.Hits, err = strconv.ParseInt(value, 10, 64); err != nil || d.Hits < 0 {
			return fmt.Errorf("policy: hits is %q: want a whole number", value)
		}
	default:
		d.Entries = append(d.Entries, Entry{key, value})
	}
	return nil
}

// SetClient sets r.IP, where r.IP is the address of a connection, to the client's address as the middleware finds it:
// behind one of the file's proxies the right-most address in X-Forwarded-For that is none of them, "" if a proxy wrote
// something else there than an address or "unknown". Otherwise what is no address stays as it is. Use it for requests
// that were not received: from a log, or a command line.
func (f *File) SetClient(r *Request) {
	if client, err := f.clients.Find(r.IP, r.Header); err == nil {
		r.IP = admit.Network(client, client.BitLen())
	}
}

// settable is what Set knows in every file.
var settable = []string{"request.method", "request.path", "request.host", "request.ip", "request.header.NAME",
	"request.query.NAME", "request.cookie.NAME", "domain", "descriptor.NAME", "hits", "user.key", "user.plan",
	nameStatus}

// set reports whether a request has an attribute of this name.
func (r *Request) set(name, value string) bool {
	first, key, _ := strings.Cut(name, ".")
	if isMap := first == "header" || first == "query" || first == "cookie"; isMap != (key != "") {
		return false
	}
	switch first {
	case "method":
		r.Method = value
	case "path":
		r.Path = value
	case "host":
		r.Host = value
	case "ip":
		r.IP = value
	case "header":
		r.Header = withValue(r.Header, http.CanonicalHeaderKey(key), value)
	case "query":
		r.Query = withValue(r.Query, key, value)
	case "cookie":
		r.Cookie = withValue(r.Cookie, key, value)
	default:
		return false
	}
	return true
}

func withValue[M ~map[string][]string](m M, key, value string) M {
	if m == nil {
		m = M{}
	}
	m[key] = append(m[key], value)
	return m
}
