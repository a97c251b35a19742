// Package audit judges what the callers of limiters saw while servers failed: what they were granted, by the moments
// of the grants; the kinds of their errors; and the goroutines that are left when they have ended. The tests of
// internal/chaos and internal/attack share it.
package audit
