// Package reqcopy copies HTTP requests for the middleware.
package reqcopy

import (
	"context"
	"net/http"
)

// WithContext returns a copy of a request with another context. Call done when the handler has returned: net/http
// removes the files of a parsed form only if it finds the form in the original, and outer middleware finds the pattern
// there.
func WithContext(r *http.Request, ctx context.Context) (copied *http.Request, done func()) {
	copied = r.WithContext(ctx)
	return copied, func() {
		if r.MultipartForm == nil {
			r.MultipartForm = copied.MultipartForm
		}
		if r.Pattern == "" {
			r.Pattern = copied.Pattern
		}
	}
}
