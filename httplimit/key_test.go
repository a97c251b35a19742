package httplimit_test

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// forwardedCase is the address of a client behind proxies, in testdata/subjects.json.
type forwardedCase struct {
	Name, Peer, Subject string
	Trust, Lines        []string
	IPv6Prefix          int `json:"ipv6_prefix"`
	Hops                int
}

// subjectVectors is testdata/subjects.json, which the packages for other languages read too.
type subjectVectors struct {
	Subjects []struct {
		Values  []string
		Subject string
	}
	Headers   []struct{ Hex, Subject string }
	Paths     []struct{ Path, Subject string }
	Addresses []struct {
		Text, Subject string
		Unix          bool
	}
	XForwardedFor []forwardedCase `json:"x_forwarded_for"`
	Forwarded     []forwardedCase
	Hops          []forwardedCase
}

func readSubjects(t *testing.T) (vectors subjectVectors) {
	text, err := os.ReadFile("testdata/subjects.json")
	if err == nil {
		err = json.Unmarshal(text, &vectors)
	}
	if err != nil || len(vectors.Subjects) == 0 || len(vectors.Forwarded) == 0 {
		t.Fatalf("testdata/subjects.json: %v", err)
	}
	return vectors
}

func TestSubjectVectors(t *testing.T) {
	vectors := readSubjects(t)
	want := func(what any, key httplimit.Key, r *http.Request, want string) {
		if got, choice := key.Subject(r); got != want || (want == "") != (choice == httplimit.RefuseEmpty) {
			t.Errorf("%q: subject %q, %v; want %q", what, got, choice, want)
		}
	}
	for _, v := range vectors.Subjects {
		if got := httplimit.Subject(v.Values...); got != v.Subject {
			t.Errorf("Subject(%q) = %q, want %q", v.Values, got, v.Subject)
		}
		var functions []httplimit.Key
		for _, value := range v.Values {
			functions = append(functions, httplimit.KeyBy(func(*http.Request) string { return value }))
		}
		want(v.Values, httplimit.Join(functions...).IfEmpty(httplimit.ShareEmpty), nil, v.Subject)
	}
	for _, v := range vectors.Headers {
		value, err := hex.DecodeString(v.Hex)
		must(t, err)
		r := &http.Request{Header: http.Header{"X-Key": {string(value)}}}
		want(v.Hex, httplimit.KeyByHeader("X-Key"), r, v.Subject)
	}
	for _, v := range vectors.Paths {
		path := httplimit.KeyBy(func(r *http.Request) string { return r.URL.Path })
		want(v.Path, path, httptest.NewRequest(http.MethodGet, v.Path, nil), v.Subject)
	}
}

// decode is the inverse of Subject, written by its doc comment. A hashed value stays as it is.
func decode(t *testing.T, subject string) []string {
	values := strings.Split(subject, "|")
	for i, value := range values {
		switch {
		case value == "~":
			values[i] = ""
		case strings.HasPrefix(value, "~2"):
			if len(value) != len("~2")+43 {
				t.Fatalf("%q is no hash", value)
			}
		default:
			if strings.Count(value, "~") != strings.Count(value, "~0")+strings.Count(value, "~1") {
				t.Fatalf("%q has a ~ that stands for nothing", value)
			}
			values[i] = strings.ReplaceAll(strings.ReplaceAll(value, "~1", "|"), "~0", "~")
		}
	}
	return values
}

// The values can be read from the subject, so that different lists of values never have the same subject; and no caller
// can make a long one.
func FuzzSubject(f *testing.F) {
	for _, values := range [][3]string{
		{"", "", ""}, {"a|b", "c", ""}, {"a", "b|c", "~"}, {"~0", "~1", "~2"}, {"~", "|", "||"},
		{strings.Repeat("~", 128), strings.Repeat("|", 129), "é"},
	} {
		f.Add(values[0], values[1], values[2])
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		values := []string{a, b, c}
		for n := 1; n <= 3; n++ {
			subject := httplimit.Subject(values[:n]...)
			if subject == "" || len(subject) > n*(2*128+1) {
				t.Errorf("Subject(%q) has %d bytes", values[:n], len(subject))
			}
			got := decode(t, subject)
			for i, value := range values[:n] {
				if len(value) > 128 {
					got[i] = value
				}
			}
			if !slices.Equal(got, values[:n]) {
				t.Errorf("Subject(%q) = %q reads as %q", values[:n], subject, got)
			}
		}
	})
}

// Each key finds its value in the request, and none where there is none.
func TestKeys(t *testing.T) {
	with := httptest.NewRequest(http.MethodGet, "/orders/17", nil)
	with.Header.Set("X-Key", "k1")
	with.Header.Add("X-Key", "k2")
	with.AddCookie(&http.Cookie{Name: "session", Value: "s1"})
	with.SetBasicAuth("ada", "secret")
	with.RemoteAddr = ada
	without := httptest.NewRequest(http.MethodGet, "/orders/", nil)
	without.RemoteAddr = "@"

	var got []string
	var choice httplimit.Empty
	mux := http.NewServeMux()
	for name, test := range map[string]struct {
		key  httplimit.Key
		want string
	}{
		"address": {httplimit.KeyByIP(), "192.0.2.7"},
		"header":  {httplimit.KeyByHeader("x-key"), "k1"},
		"cookie":  {httplimit.KeyByCookie("session"), "s1"},
		"user":    {httplimit.KeyByUser(), "ada"},
		"path":    {httplimit.KeyByPathValue("id"), "17"},
		"func":    {httplimit.KeyBy(func(r *http.Request) string { return strings.Trim(r.URL.Path[7:], "/") }), "17"},
		"joined":  {httplimit.Join(httplimit.KeyByUser(), httplimit.KeyByHeader("X-Key")), "ada|k1"},
		"of":      {httplimit.Join(httplimit.KeyOf("all", "of|them"), httplimit.KeyByUser()), "all|of~1them|ada"},
	} {
		t.Run(name, func(t *testing.T) {
			mux = http.NewServeMux()
			mux.HandleFunc("/orders/{id...}", func(_ http.ResponseWriter, r *http.Request) {
				var subject string
				subject, choice = test.key.Subject(r)
				got = append(got, subject)
			})
			if serve(mux, with); got[len(got)-1] != test.want || choice != httplimit.ShareEmpty {
				t.Errorf("subject %q, %v; want %q", got[len(got)-1], choice, test.want)
			}
			if serve(mux, without); got[len(got)-1] != "" || choice != httplimit.RefuseEmpty {
				t.Errorf("without a value: subject %q, %v", got[len(got)-1], choice)
			}
		})
	}
}

// What happens to a request without a value is the key's choice: refuse, skip, or one subject for all of them.
func TestIfEmpty(t *testing.T) {
	_, limits := fake(t)
	user, agent := httplimit.KeyByHeader("X-User"), httplimit.KeyByHeader("X-Agent")
	share, skip, refuse := httplimit.ShareEmpty, httplimit.SkipEmpty, httplimit.RefuseEmpty
	for _, test := range []struct {
		name string
		key  httplimit.Key
		want []int // without values
	}{
		{"default", user, []int{400, 400}},
		{"refuse", user.IfEmpty(refuse), []int{400, 400}},
		{"skip", user.IfEmpty(skip), []int{200, 200}},
		{"share", user.IfEmpty(share), []int{200, 429}},
		{"refuse-skip", httplimit.Join(user, agent.IfEmpty(skip)), []int{400, 400}},
		{"skip-share", httplimit.Join(user.IfEmpty(share), agent.IfEmpty(skip)), []int{200, 200}},
		{"share-share", httplimit.Join(user, agent).IfEmpty(share), []int{200, 429}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var result httplimit.Result
			observe := httplimit.Observe(func(_ *http.Request, r httplimit.Result) { result = r })
			limiter := limits.ListLog(test.name, loader.PerMinute(1))
			h := check(t, httplimit.New(limiter, test.key, observe)).Handler(ok)
			wantStatus(t, h, ada, test.want...)
			if test.want[0] != 400 {
				return
			}
			answer := get(h, ada)
			p := problemOf(t, answer)
			if p.Type != "about:blank" || p.Status != 400 || result.Outcome != httplimit.NoKey || result.Err != nil {
				t.Errorf("refused with %+v, %+v", p, result)
			}
		})
	}
	wantRemaining(t, limits.ListLog("share", loader.PerMinute(1)), "~", 0)
}
