package scripttest_test

// logTimelines are what the two sliding-window logs answer alike. id is what zset_log takes behind the arguments of
// list_log.
//
// limit window permits max_wait -> granted remaining wait reset_after
func logTimelines(id string) []timeline {
	return []timeline{
		{"grant, deny, and grant when the oldest has left", []line{
			{"0s", "3 10s 1 0" + id, "1 2 0 10s"},
			{"1s", "3 10s 1 0" + id, "1 1 0 10s"},
			{"2s", "3 10s 1 0" + id, "1 0 0 10s"},
			{"3s", "3 10s 1 0" + id, "0 0 7s 9s"},
			{"9.999999s", "3 10s 1 0" + id, "0 0 1us 2.000001s"},
			{"10s", "3 10s 1 0" + id, "1 0 0 10s"},
			{"10s", "3 10s 1 0" + id, "0 0 1s 10s"},
		}},
		{"denied calls do not count", []line{
			{"0s", "2 10s 1 0" + id, "1 1 0 10s"},
			{"1s", "2 10s 1 0" + id, "1 0 0 10s"},
			{"3s", "2 10s 1 0" + id, "0 0 7s 8s"},
			{"6s", "2 10s 1 0" + id, "0 0 4s 5s"},
			{"9s", "2 10s 1 0" + id, "0 0 1s 2s"},
			{"12s", "2 10s 1 0" + id, "1 1 0 10s"},
		}},
		{"any interval, wherever it starts: no edge lets twice the limit through", []line{
			{"9.8s", "2 10s 1 0" + id, "1 1 0 10s"},
			{"9.9s", "2 10s 1 0" + id, "1 0 0 10s"},
			{"10.1s", "2 10s 1 0" + id, "0 0 9.7s 9.8s"},
			{"19.7s", "2 10s 1 0" + id, "0 0 100ms 200ms"},
			{"19.8s", "2 10s 1 0" + id, "1 0 0 10s"},
		}},
		{"permits of one millisecond all count", []line{
			{"0s", "3 10s 1 0" + id, "1 2 0 10s"},
			{"1us", "3 10s 1 0" + id, "1 1 0 10s"},
			{"999us", "3 10s 1 0" + id, "1 0 0 10s"},
			{"999us", "3 10s 1 0" + id, "0 0 9.999001s 10s"},
		}},
		{"a window of a second and a half", []line{
			{"0s", "2 1.5s 2 0" + id, "2 0 0 1.5s"},
			{"1.2s", "2 1.5s 1 0" + id, "0 0 300ms 300ms"},
			{"1.5s", "2 1.5s 1 0" + id, "1 1 0 1.5s"},
		}},
		{"the clock stands still: permits of one microsecond all count", []line{
			{"0s", "3 10s 1 0" + id, "1 2 0 10s"},
			{"0s", "3 10s 1 0" + id, "1 1 0 10s"},
			{"0s", "3 10s 1 0" + id, "1 0 0 10s"},
			{"0s", "3 10s 1 0" + id, "0 0 10s 10s"},
		}},
		{"a look writes nothing", []line{
			{"0s", "3 10s 0 0" + id, "0 3 0 0"},
			{"0s", "3 10s 2 0" + id, "2 1 0 10s"},
			{"1s", "3 10s 0 60s" + id, "0 1 0 9s"},
			{"2s", "3 10s 1 0" + id, "1 0 0 10s"},
			{"3s", "3 10s 0 60s" + id, "0 0 7s 9s"},
			{"10s", "3 10s 0 0" + id, "0 2 0 2s"},
			{"12s", "3 10s 0 0" + id, "0 3 0 0"},
		}},
		{"n permits together or not at all", []line{
			{"0s", "5 10s 3 0" + id, "3 2 0 10s"},
			{"1s", "5 10s 3 0" + id, "0 2 9s 9s"},
			{"1s", "5 10s 2 0" + id, "2 0 0 10s"},
			{"2s", "5 10s 3 0" + id, "0 0 8s 9s"},
			{"2s", "5 10s 4 0" + id, "0 0 9s 9s"},
			{"10s", "5 10s 4 0" + id, "0 3 1s 1s"},
			{"11s", "5 10s 5 0" + id, "5 0 0 10s"},
		}},
		{"reserve: first come, first served", []line{
			{"0s", "2 10s 2 0" + id, "2 0 0 10s"},
			{"1s", "2 10s 1 60s" + id, "1 0 9s 19s"},
			{"2s", "2 10s 1 60s" + id, "1 0 8s 18s"},
			{"3s", "2 10s 1 60s" + id, "1 0 17s 27s"},
			{"4s", "2 10s 1 15.999999s" + id, "0 0 16s 26s"},
			{"4s", "2 10s 0 0" + id, "0 0 16s 26s"},
			{"4s", "2 10s 1 16s" + id, "1 0 16s 26s"},
			{"20s", "2 10s 1 0" + id, "0 0 10s 10s"},
			{"30s", "2 10s 1 0" + id, "1 1 0 10s"},
		}},
		{"a booking ahead closes the limiter, whatever the limit", []line{
			{"0s", "1 10s 1 0" + id, "1 0 0 10s"},
			{"5s", "1 10s 1 5s" + id, "1 0 5s 15s"},
			{"6s", "9 10s 1 0" + id, "0 0 4s 14s"},
			{"6s", "9 10s 3 0" + id, "0 0 4s 14s"},
			{"6s", "9 10s 0 60s" + id, "0 0 4s 14s"},
			{"6s", "9 10s 1 60s" + id, "1 0 4s 14s"},
			{"10s", "9 10s 1 0" + id, "1 6 0 10s"},
		}},
		{"a booking for a time in the second half of a second", []line{
			{"700ms", "1 10s 1 0" + id, "1 0 0 10s"},
			{"1s", "1 10s 1 60s" + id, "1 0 9.7s 19.7s"},
			{"2s", "1 10s 0 0" + id, "0 0 18.7s 18.7s"},
		}},
		{"a booking trims what has left", []line{
			{"0s", "2 10s 1 0" + id, "1 1 0 10s"},
			{"9s", "2 10s 1 0" + id, "1 0 0 10s"},
			{"12s", "2 10s 2 60s" + id, "2 0 7s 17s"},
		}},
		{"a changed limit applies at once", []line{
			{"0s", "3 10s 3 0" + id, "3 0 0 10s"},
			{"1s", "5 10s 2 0" + id, "2 0 0 10s"},
			{"2s", "2 10s 1 0" + id, "0 0 9s 9s"},
			{"2s", "2 10s 2 0" + id, "0 0 9s 9s"},
			{"10s", "2 10s 1 0" + id, "0 0 1s 1s"},
			{"11s", "2 10s 1 0" + id, "1 1 0 10s"},
		}},
		{"a changed window: shorter frees, longer counts what is still there", []line{
			{"0s", "3 10s 1 0" + id, "1 2 0 10s"},
			{"8s", "3 10s 1 0" + id, "1 1 0 10s"},
			{"9s", "3 4s 1 0" + id, "1 1 0 4s"},
			{"9s", "3 10s 0 0" + id, "0 1 0 10s"},
			{"14s", "3 4s 1 0" + id, "1 2 0 4s"},
			{"15s", "3 60s 0 0" + id, "0 2 0 59s"},
		}},
		{"the clock steps back: nothing extra, no delay beyond the step", []line{
			{"10s", "2 10s 1 0" + id, "1 1 0 10s"},
			{"5s", "2 10s 1 0" + id, "0 0 5s 15s"},
			{"5s", "2 10s 1 5s" + id, "1 0 5s 15s"},
			{"10s", "2 10s 1 0" + id, "0 0 10s 10s"},
			{"20s", "2 10s 1 0" + id, "1 1 0 10s"},
		}},
		{"a step back of a window and 60 s voids nothing, not even a booking of 60 s", []line{
			{"0s", "1 60s 1 0" + id, "1 0 0 60s"},
			{"0s", "1 60s 1 60s" + id, "1 0 60s 120s"},
			{"", "!PERSIST $1", ""},
			{"-120s", "1 60s 1 0" + id, "0 0 240s 240s"},
			{"-120s", "1 60s 0 0" + id, "0 0 240s 240s"},
			{"-120.000001s", "1 60s 0 0" + id, "0 1 0 0"},
			{"-120.000001s", "1 60s 1 0" + id, "1 0 0 60s"},
		}},
		{"the clock steps back three years: afresh at once", []line{
			{"0s", "2 10s 2 0" + id, "2 0 0 10s"},
			{"-26280h", "2 10s 2 0" + id, "2 0 0 10s"},
			{"-26280h", "2 10s 1 0" + id, "0 0 10s 10s"},
			{"0s", "2 10s 2 0" + id, "2 0 0 10s"},
		}},
		{"a changed window or limit never makes state void", []line{
			{"0s", "1 8784h 1 0" + id, "1 0 0 8784h"},
			{"1s", "1 1ms 0 0" + id, "0 1 0 0"},
			{"1s", "1 8784h 1 0" + id, "0 0 8783h59m59s 8783h59m59s"},
			{"1s", "2 1ms 0 0" + id, "0 2 0 0"},
		}},
		{"the smallest window", []line{
			{"0s", "1 1ms 1 0" + id, "1 0 0 1ms"},
			{"999us", "1 1ms 1 0" + id, "0 0 1us 1us"},
			{"1ms", "1 1ms 1 0" + id, "1 0 0 1ms"},
		}},
	}
}
