package lua51

import "testing"

func TestLikeMiniredis(t *testing.T) {
	r := Start(t)
	r.LikeMiniredis()
	do(t, r, "ZADD", "k1", 2e15, "m")
	for source, want := range map[string]any{
		`return rawget(_G, "struct") or "none"`:                 "none",
		`return tonumber("1e3") or "nil"`:                       "nil",
		`return redis.call("ZSCORE", KEYS[1], "m")`:             "2e+15",
		`return string.format("%.0f", tonumber("4.1e+15") + 1)`: "4100000000000001",
	} {
		if got := runOn(t, r, source); got.Reply != want || got.Err != nil {
			t.Errorf("%s: %v, %v; want %v", source, got.Reply, got.Err, want)
		}
	}
	if got := runOn(t, Start(t), `return tonumber("1e3") and struct.pack("b", 65)`); got.Reply != "A" {
		t.Errorf("another server: %v, %v; want A", got.Reply, got.Err)
	}
}
