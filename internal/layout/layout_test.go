package layout

import "testing"

func TestLayout(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"gcra", GCRA(1, 2, 3, 4, 5), "\x00\x00\x00\x00\x00\x00\x01\x00\x00\x02\x00\x00\x03" +
			"\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x05"},
		{"gcra, narrower windows", GCRA(0, 0, 0, 0, 0, 6, 1<<53)[26:],
			"\x00\x00\x00\x00\x00\x06\x20\x00\x00\x00\x00\x00\x00"},
		{"token_bucket", TokenBucketEntry(0x0102030405060708, 9, 10), "\x01\x02\x03\x04\x05\x06\x07\x08" +
			"\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x0a"},
		{"slice_ring's header", SliceRingHeader(1, 2, "a", "b"), "\x02\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x02ab"},
		{"slice_ring's section", SliceRingSection(1, 2, 3, "c"), "\x00\x00\x00\x00\x01\x00\x02\x00\x00\x00\x00\x00\x03c"},
		{"an id of budget", Budget(1, 3, false), "\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x06"},
		{"an id that is settled", Budget(1, 1e9, true), "\x00\x00\x00\x00\x00\x00\x01\x77\x35\x94\x01"},
		{"a cell of slice_ring", SliceRingCell(1<<44-1, 4096+0x123), "\xff\xff\xff\xff\xff\xf1\x23"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %x, want %x", c.name, c.got, c.want)
		}
	}
}
