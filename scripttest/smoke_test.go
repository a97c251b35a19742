package scripttest

import "testing"

func TestSmoke(t *testing.T) {
	r := Start(t)
	for _, src := range []string{
		`return 1732100000123456 .. ""`, `return {1,2.9,"x",true,false,{err="A b"},{ok="K"},nil,4}`, `return redis.call("set","k",1732100000123456)`,
		`return redis.call("get","k")`, `return redis.call("time")`, `local x=1; local f=function() x=x+1 end; pcall(error); f(); return x`,
		`foo=1`, `return foo`, `return tonumber("1e3")+("0x10"*2)`, `error("boo")`, "\n\nlocal t=nil\nreturn t.x", `local t={} for i=1,7999 do t[i]=i end return #{unpack(t)}`,
		`return redis.call("incr")`, `return redis.pcall("nope")`, `while true do pcall(function() while true do end end) end`, `return 5 % 3 .. -1`,
		`return string.format("%5.2f|%d|%s|%q", 3.14159, 42, "x", "a\nb")`, `return (string.gsub("hello world", "(%w+)", "<%1>"))`,
		`local function f() return 1+f() end return f()`, `local ok, e = pcall(function() local function f() return 1+f() end return f() end) return e`,
	} {
		s, err := Compile("t", src)
		if err != nil {
			t.Log(src, err)
			continue
		}
		res := s.Run(r, []string{"k"}, nil)
		t.Logf("%s\n   -> %#v %v %d %v", src, res.Reply, res.Err, res.Instructions, res.Commands)
	}
	t.Log(r.Snapshot())
}
func BenchmarkRun(b *testing.B) {
	r := Start(b)
	s, _ := Compile("t", `local t = redis.call("TIME") local n = redis.call("INCR", KEYS[1]) redis.call("PEXPIRE", KEYS[1], 1000) local x = 0 for i=1,100 do x = x + i end return {n, x, tonumber(t[1])*1000000+tonumber(t[2])}`)
	for b.Loop() {
		if res := s.Run(r, []string{"k"}, nil); res.Err != nil {
			b.Fatal(res.Err)
		}
	}
}
