// Package audit checks what the callers of limiters saw while servers failed: the times of their grants, the kinds of
// their errors, and the goroutines that are left afterwards. The tests of internal/chaos and internal/attack use it.
package audit
