package httplimit

import (
	"net/http"

	"github.com/felixge/httpsnoop"
)

// call calls the handler, and gives back what does not count.
func (q *request) call(next http.Handler) {
	defer q.releaseSlots()
	if !q.needsStatus() {
		next.ServeHTTP(q.w, q.r)
		return
	}
	status := 0
	next.ServeHTTP(httpsnoop.Wrap(q.w, httpsnoop.Hooks{
		WriteHeader: func(write httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) {
				if status == 0 && code >= 200 {
					status = code
				}
				write(code)
			}
		},
	}), q.r)
	if status == 0 {
		status = http.StatusOK
	}
	q.giveBack(func(c Charge) bool { return c.CountIf != nil && !c.CountIf(status) })
}

// needsStatus reports whether a charge depends on the status of the response.
func (q *request) needsStatus() bool {
	for _, list := range [][]asked{q.enforced, q.shadowed} {
		for _, a := range list {
			if a.CountIf != nil {
				return true
			}
		}
	}
	return false
}
