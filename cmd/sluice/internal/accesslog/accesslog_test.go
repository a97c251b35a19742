package accesslog

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-redis/sluice/policy"
)

func request(method, path string) *policy.Request {
	return &policy.Request{Method: method, Path: path, IP: "192.0.2.7"}
}

func utc(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04:05.999999999", text)
	if err != nil {
		panic(err)
	}
	return at
}

// agent is a request with the headers that the combined format has.
func agent(r *policy.Request, referer, agent string) *policy.Request {
	r.Header = map[string][]string{}
	if referer != "" {
		r.Header["Referer"] = []string{referer}
	}
	r.Header["User-Agent"] = []string{agent}
	return r
}

func TestParse(t *testing.T) {
	query := request("GET", "/a b")
	query.Query = map[string][]string{"page": {"2"}}
	proxied := agent(request("GET", "/"), "", "curl/8")
	proxied.Host = "example.com"
	proxied.Header["Cookie"], proxied.Cookie = []string{"sid=s1; b=2"}, map[string][]string{"sid": {"s1"}, "b": {"2"}}
	header := request("POST", "/code")
	header.Host, header.Header = "shop", map[string][]string{"X-User": {"ada"}}
	nginx := request("GET", "/x")
	nginx.Header = map[string][]string{"X-User": {"ada"}}
	nginx.Cookie, nginx.Host = map[string][]string{"sid": {"s"}}, "h"
	user := map[string]string{"user.key": "ada"}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, pattern, line string
		want                Entry
	}{
		{"combined", "", `192.0.2.7 - ada [10/Oct/2025:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326 "http://e/s" "Mozilla/4"`,
			Entry{utc("2025-10-10 20:55:36"), policy.Attributes{
				Request: agent(request("GET", "/a"), "http://e/s", "Mozilla/4"), Values: user, Status: 200}}},
		{"common", "", `192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] "HEAD /a HTTP/1.1" 404 -`,
			Entry{utc("2025-10-10 13:55:36"), policy.Attributes{Request: request("HEAD", "/a"), Status: 404}}},
		{"fields at the end", "",
			`192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] "GET /a HTTP/1.1" 200 9 "-" "curl" 71 "r@docker" "http://b" 3ms`,
			Entry{utc("2025-10-10 13:55:36"), policy.Attributes{Request: agent(request("GET", "/a"), "", "curl"), Status: 200}}},
		{"quotes in quotes", "",
			`192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] "GET /a HTTP/1.1" 200 9 "-" "an \"agent\" \x41\\"`,
			Entry{utc("2025-10-10 13:55:36"), policy.Attributes{
				Request: agent(request("GET", "/a"), "", `an "agent" A\`), Status: 200}}},
		{"a query, and an address with a port", "",
			`192.0.2.7:80 - - [10/Oct/2025:13:55:36 +0000] "GET /a%20b?page=2 HTTP/2.0" 200 9`,
			Entry{utc("2025-10-10 13:55:36"), policy.Attributes{Request: query, Status: 200}}},
		{"before the clocks go back", "", `192.0.2.7 - - [26/Oct/2025:02:30:00 +0200] "GET /a HTTP/1.1" 200 9`,
			Entry{utc("2025-10-26 00:30:00"), policy.Attributes{Request: request("GET", "/a"), Status: 200}}},
		{"after they have gone back", "", `192.0.2.7 - - [26/Oct/2025:02:30:00 +0100] "GET /a HTTP/1.1" 200 9`,
			Entry{utc("2025-10-26 01:30:00"), policy.Attributes{Request: request("GET", "/a"), Status: 200}}},
		{"half an hour from UTC", "", `192.0.2.7 - - [26/Oct/2025:02:30:00 +0530] "GET /a HTTP/1.1" 200 9`,
			Entry{utc("2025-10-25 21:00:00"), policy.Attributes{Request: request("GET", "/a"), Status: 200}}},
		{"HAProxy", "", `Oct 10 13:55:36 lb haproxy[14]: 192.0.2.7:3317 [10/Oct/2025:13:55:36.655] web~ static/srv1 ` +
			`10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {shop.example|curl/8} {} "GET /a HTTP/1.1"`,
			Entry{utc("2025-10-10 11:55:36.655"), policy.Attributes{Request: request("GET", "/a"), Status: 200}}},
		{"HAProxy, httpslog, IPv6", "", `2001:db8::9:4022 [10/Oct/2025:13:55:36.655] web web/s ` +
			`0/0/0/0/0 200 9 - - ---- 1/1/0/0/0 0/0 "GET /a HTTP/1.1" 0/0/0/0/0 shop.example/TLSv1.3/TLS_AES_128_GCM_SHA256`,
			Entry{utc("2025-10-10 11:55:36.655"), policy.Attributes{
				Request: &policy.Request{Method: "GET", Path: "/a", IP: "2001:db8::9"}, Status: 200}}},
		{"HAProxy, aborted", "", `192.0.2.7:3317 [10/Oct/2025:13:55:36.655] web web/<NOSRV> ` +
			`10/-1/-1/-1/+109 -1 +0 - - CR-- 1/1/1/0/+3 0/0 "GET /a HTTP/1.1"`,
			Entry{utc("2025-10-10 11:55:36.655"), policy.Attributes{Request: request("GET", "/a"), Status: -1}}},
		{"Envoy", "", `[2025-10-09T08:53:20.310Z] "POST /code?page=2 HTTP/2" 204 - 154 0 226 100 "192.0.2.7" "a "b" c" ` +
			`"cc21d9b0" "shop" "tcp://10.0.2.1:80"`,
			Entry{utc("2025-10-09 08:53:20.31"), policy.Attributes{Request: &policy.Request{
				Method: "POST", Path: "/code", IP: "10.0.0.1", Host: "shop", Query: map[string][]string{"page": {"2"}},
				Header: map[string][]string{"X-Forwarded-For": {"192.0.2.7"}, "User-Agent": {`a "b" c`}}}, Status: 204}}},
		{"several addresses", "",
			`203.0.113.9:5, 10.0.0.2, 192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] "GET /a HTTP/1.1" 200 9`,
			Entry{utc("2025-10-10 13:55:36"), policy.Attributes{Request: &policy.Request{Method: "GET", Path: "/a",
				IP: "192.0.2.7", Header: map[string][]string{"X-Forwarded-For": {"203.0.113.9:5,10.0.0.2"}}}, Status: 200}}},
		{"Caddy", "", `{"level":"info","ts":1760000000.75,"logger":"http.log.access","msg":"handled request","request":` +
			`{"remote_ip":"10.0.0.1","client_ip":"192.0.2.7","proto":"HTTP/2.0","method":"GET","host":"example.com",` +
			`"uri":"/","headers":{"User-Agent":["curl/8"],"Cookie":["sid=s1; b=2"]}},"user_id":"ada","duration":0.5,` +
			`"size":9,"status":200}`,
			Entry{utc("2025-10-09 08:53:20.25"), policy.Attributes{Request: proxied, Values: user, Status: 200}}},
		{"Caddy with a time as text", "", `{"ts":"2025-10-09T08:53:20.750Z","request":{"remote_addr":"192.0.2.7:99",` +
			`"method":"GET","uri":"/a"},"user":{"key":"k","plan":"pro"},"duration":"250ms","status":201}`,
			Entry{utc("2025-10-09 08:53:20.5"), policy.Attributes{Request: request("GET", "/a"),
				Values: map[string]string{"user.key": "k", "user.plan": "pro"}, Status: 201}}},
		{"Traefik", "", `{"ClientAddr":"192.0.2.7:51","ClientHost":"192.0.2.7","ClientUsername":"-","DownstreamStatus":500,` +
			`"Duration":250000000,"RequestHost":"shop","RequestMethod":"POST","RequestPath":"/code","request_X-User":"ada",` +
			`"StartUTC":"2025-10-09T08:53:20.123456789Z","time":"2025-10-09T10:53:21+02:00"}`,
			Entry{utc("2025-10-09 08:53:20.123456789"), policy.Attributes{Request: header, Status: 500}}},
		{"Traefik without its start", "", `{"ClientHost":"192.0.2.7","ClientUsername":"ada","DownstreamStatus":200,` +
			`"Duration":250000000,"RequestMethod":"GET","RequestPath":"/a","time":"2025-10-09T10:53:21+02:00"}`,
			Entry{utc("2025-10-09 08:53:20.75"), policy.Attributes{Request: request("GET", "/a"), Values: user, Status: 200}}},
		{"nginx json", "", `{"time_local":"09/Oct/2025:08:53:20 +0000","msec":"1760000000.750","request_time":"0.250",` +
			`"remote_addr":"192.0.2.7","remote_user":"","request":"GET /x HTTP/1.1","status":"200","host":"h",` +
			`"http_x_user":"ada","cookie_sid":"s","user.plan":"free","note":null}`,
			Entry{utc("2025-10-09 08:53:20.5"), policy.Attributes{Request: nginx,
				Values: map[string]string{"user.plan": "free"}, Status: 200}}},
		{"a log_format", `$msec|$remote_addr|"$request_method" $request_uri ${status} $user_agent_ [${email}]`,
			`1760000000.750|192.0.2.7|"GET" /a 200 x y [ada@example.com]`,
			Entry{utc("2025-10-09 08:53:20.75"), policy.Attributes{Request: request("GET", "/a"),
				Values: map[string]string{"email": "ada@example.com"}, Status: 200}}},
		{"Apache's vhost_combined", `$host:$port $remote_addr - $remote_user [$time_local] "$request" $status $rest`,
			`shop:443 192.0.2.7 - - [09/Oct/2025:08:53:20 +0000] "GET /a HTTP/1.1" 200 99 "-" "curl"`,
			Entry{utc("2025-10-09 08:53:20"), policy.Attributes{
				Request: &policy.Request{Method: "GET", Path: "/a", IP: "192.0.2.7", Host: "shop"}, Status: 200}}},
		{"the most exact of several times", `$msec [$time_local] $remote_addr "$request"`,
			`1760000000.750 [09/Oct/2025:08:53:20 +0000] 192.0.2.7 "GET /a HTTP/1.1"`,
			Entry{utc("2025-10-09 08:53:20.75"), policy.Attributes{Request: request("GET", "/a")}}},
		{"a log_format that is JSON", `{"t":"$time_iso8601","ip":"$remote_addr","r":"$request","u":"${user.key}"}`,
			`{"t":"2025-10-09T08:53:20+00:00","ip":"192.0.2.7","r":"GET /a HTTP/1.1","u":"a\"d\u0061\/"}`,
			Entry{utc("2025-10-09 08:53:20"), policy.Attributes{Request: request("GET", "/a"),
				Values: map[string]string{"user.key": `a"da/`}}}},
	} {
		f, err := NewFormat(test.pattern, []string{"email"})
		if err != nil {
			t.Fatal(err)
		}
		f.Zone, f.Peer = berlin, "10.0.0.1"
		got, err := f.Parse([]byte(test.line))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		got.At = got.At.UTC()
		if diff := cmp.Diff(test.want, got, cmpopts.IgnoreUnexported(policy.Request{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"", "it is empty"},
		{" \t", "it is empty"},
		{"hello", `it has no " " behind $remote_addr`},
		{`192.0.2.7 - - [10/Oct/2025:13:55:36] "GET /a HTTP/1.1" 200 9`,
			`the time "10/Oct/2025:13:55:36" has no zone: give it by --zone, as in --zone Europe/Berlin`},
		{`::1:3317 [10/Oct/2025:13:55:36.655] web web/<NOSRV> 0/-1/-1/-1/0 400 9 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>"`,
			"it has no request: HAProxy could not read one"},
		{`[2025-10-09T08:53:20.310Z] "GET / HTTP/2" 200 - 154 0 226 100 "192.0.2.7" "-" "-" "-" "-"`,
			"it has X-Forwarded-For and no address of the connection: give that of the proxy by --peer"},
		{`192.0.2.7 - - [10/Oct/0025:13:55:36 +0000] "GET /a HTTP/1.1" 200 9`,
			`the time is "10/Oct/0025:13:55:36 +0000": want one of the years 1971 to 2200`},
		{`192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] "\x16\x03\x01\x02" 400 9`,
			`the request is "\x16\x03\x01\x02": want METHOD URI HTTP/VERSION`},
		{`192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] "-" 408 0`, `the request is "": want METHOD URI HTTP/VERSION`},
		{`192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] "GET /%zz HTTP/1.1" 400 0`, `the URI is "/%zz": want a path`},
		{`192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] "GET /a HTTP/1.1" ok 0`, `the status is "ok": want a number`},
		{`{"a":`, "it is no JSON: unexpected end of JSON input"},
		{`{"a":1}`, "it has no time under a name that Caddy, Traefik or the variables of nginx have: see --format"},
		{`{"msec":1760000000}`,
			"it has no request under a name that Caddy, Traefik or the variables of nginx have: see --format"},
		{`{"msec":"1.2.3"}`, `the time is "1.2.3": want one number`},
		{`{"request_time":"fast","msec":1760000000}`, `the duration is "fast": want seconds`},
		{`{"request_time":"9000000000","msec":1760000000,"request":"GET / HTTP/1.1"}`,
			"the request began in 1740: want one of the years 1971 to 2200"},
		{`{"request":{"method":1},"ts":true}`,
			`the time is "true": want a time with its offset from UTC, or seconds since 1970`},
	} {
		f, _ := NewFormat("", nil)
		if _, err := f.Parse([]byte(test.line)); err == nil || err.Error() != test.want {
			t.Errorf("%s:\n got %v\nwant %s", test.line, err, test.want)
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for text, want := range map[string]string{
		"plain":       "it has no variables such as $remote_addr",
		"$a$b":        "the variable $b follows another without a text between them",
		"${a}${b.c} ": "the variable ${b.c} follows another without a text between them",
	} {
		if _, err := NewFormat(text, nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	f, _ := NewFormat("$remote_addr [$msec]", nil)
	for line, want := range map[string]string{
		"1.2.3.4":               `it has no " [" behind $remote_addr`,
		"1.2.3.4 [1760000000":   `it has no "]" behind $msec`,
		"1.2.3.4 [1760000000]x": `it has "x" behind its end`,
	} {
		if _, err := f.Parse([]byte(line)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestTimesOfNumbers wants the unit of a number to be found by its size.
func TestTimesOfNumbers(t *testing.T) {
	want := utc("2025-10-09 08:53:20.123456")
	for _, text := range []string{"1760000000.123456", "1760000000123.456", "1760000000123456", "1760000000123456000"} {
		if got, err := new(draft).parseTime(text); !got.Equal(want) || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// read returns what Next returns of a log: its lines, or the lengths of those that are too long.
func read(t *testing.T, log io.Reader) (all []string, err error) {
	t.Helper()
	lines, err := NewLines(log)
	if err != nil {
		return nil, err
	}
	for {
		line, length, ok := lines.Next()
		switch {
		case !ok:
			return all, lines.Err()
		case line == nil:
			all = append(all, fmt.Sprint(length))
		default:
			all = append(all, string(line))
		}
	}
}

func gzipped(text string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.Bytes()
}

func TestLines(t *testing.T) {
	huge := strings.Repeat("x", 5*MaxLine)
	long := strings.Repeat("x", MaxLine-1)
	for _, test := range []struct {
		name, log string
		want      []string
	}{
		{"empty", "", nil},
		{"one byte", "a", []string{"a"}},
		{"no end of line at the end", "a\nb", []string{"a", "b"}},
		{"empty lines, and those of Windows", "a\r\n\n\r\nb\r\n", []string{"a", "", "", "b"}},
		{"a huge line", "a\n" + huge + "\nb\n", []string{"a", fmt.Sprint(len(huge) + 1), "b"}},
		{"a huge line at the end", "a\n" + huge, []string{"a", fmt.Sprint(len(huge))}},
		{"the longest line", long + "\nb\n", []string{long, "b"}},
		{"gzip", string(gzipped("a\nb\n")), []string{"a", "b"}},
		{"several files of gzip", string(gzipped("a\n")) + string(gzipped("b\n")), []string{"a", "b"}},
	} {
		got, err := read(t, strings.NewReader(test.log))
		if diff := cmp.Diff(test.want, got, cmpopts.IgnoreUnexported(policy.Request{})); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", test.name, err, diff)
		}
	}
}

func TestLinesOfADamagedFile(t *testing.T) {
	whole := gzipped(strings.Repeat("a line\n", 1000))
	if got, err := read(t, bytes.NewReader(whole[:len(whole)-9])); err == nil || len(got) == 0 {
		t.Errorf("%d lines, %v", len(got), err)
	}
	if _, err := read(t, bytes.NewReader(whole[:5])); err == nil {
		t.Error("no error for a header that is cut off")
	}
}

// FuzzParse wants no line to panic.
func FuzzParse(f *testing.F) {
	f.Add(`192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] "GET /a?b=c HTTP/1.1" 200 9 "-" "an \"agent\""`)
	f.Add(`{"ts":1760000000,"request":{"method":"GET","uri":"/","headers":{"Cookie":["a=b"]}},"duration":1}`)
	f.Add(`{"msec":"1760000000.1","request":"GET / HTTP/1.1","cookie_a":"b","arg_c":"d"}`)
	log, _ := NewFormat("", []string{"email"})
	own, _ := NewFormat(`"$request" $msec "$http_x" ${email}`, []string{"email"})
	f.Fuzz(func(t *testing.T, line string) {
		for _, format := range []*Format{log, own} {
			if e, err := format.Parse([]byte(line)); err == nil && e.At.IsZero() {
				t.Error("an entry without a time")
			}
		}
	})
}
