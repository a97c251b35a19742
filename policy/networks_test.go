package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/policy"
)

// Networks are named in the file or where they are asked for, and an override may be for one.
func TestNetworks(t *testing.T) {
	f := parse(t, `
networks:
  office: [10.0.0.0/20, "2001:db8::/32", 192.0.2.7]
limits:
  public: {when: "!networks.office.containsIP(request.ip)", by: request.ip, rates: 3/1m}
  inside: {when: 'cidr("10.0.0.0/8").containsIP(request.ip)', by: request.ip, rates: 3/1m}
  each:
    by: ip(request.ip, 64)
    rates: 3/1m
    overrides:
      - {network: office, rates: 30/1m, until: 2999-01-01T00:00:00Z}
      - {network: 10.0.0.0/8, rates: 20/1m, until: 2999-01-01T00:00:00Z}
      - {network: 0.0.0.0/0, rates: 9/1m, until: 2001-01-01T00:00:00Z}
      - {subject: 10.0.0.9, rates: 1/1m, until: 2999-01-01T00:00:00Z}
`)
	for address, want := range map[string]string{
		"10.0.15.255":          "inside each=30/1m",
		"::ffff:10.0.0.1":      "inside each=30/1m",
		"10.0.16.0":            "public inside each=20/1m",
		"10.0.0.9":             "inside each=1/1m",
		"192.0.2.7":            "each=30/1m",
		"192.0.2.8":            "public each=3/1m",
		"2001:db8:1:2:3::4":    "each=30/1m",
		"2001:db9::4":          "public each=3/1m",
		"2001:db8:ffff:f::%e0": "each=30/1m",
	} {
		matches, err := f.Match(policy.Attributes{Request: &policy.Request{IP: address}, At: time.Unix(1_800_000_000, 0)})
		must(t, err)
		var got []string
		for _, m := range matches {
			text := m.Policy.Name
			if text == "each" {
				text += "=" + m.Policy.Show(m.Rates)
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %q, want %q", address, text, want)
		}
	}
}
