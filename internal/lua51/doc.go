// Package lua51 is Redis 7.0's Lua off the server: its numbers, its errors, its libraries, on gopher-lua, with a
// miniredis in the same process for the data and a clock that the caller sets.
//
//	redis, err := lua51.Open()
//	if err != nil {
//		return err
//	}
//	defer redis.Close()
//	script, err := lua51.Compile("limiter", source)
//	if err != nil {
//		return err
//	}
//	result := script.Run(redis, []string{"key"}, []string{"10", "60000000"})
//
// Package scripttest is its face for tests, and says what is emulated, what is refused and what is the server's own
// affair. This package needs neither a test nor an operating system, so that a browser can run scripts too.
package lua51
