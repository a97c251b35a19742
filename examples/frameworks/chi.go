package frameworks

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/sluice-redis/sluice/loader"
)

// Chi needs nothing of its own. Limit by path value with With, which comes after the routing, and not with Use. Do not
// use chi's RealIP before a limit by address: it takes the left end of X-Forwarded-For, which the client writes.
func Chi(limits *loader.Loader) http.Handler {
	limited, router := newMiddleware(limits), chi.NewRouter()
	router.With(limited.hello).Get("/hello", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	})
	router.With(limited.order).Get("/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, chi.URLParam(r, "id"))
	})
	router.With(limited.login).Post("/login", func(w http.ResponseWriter, r *http.Request) {
		if !known(r) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	return router
}
