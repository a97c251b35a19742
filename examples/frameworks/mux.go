package frameworks

import (
	"fmt"
	"net/http"

	"github.com/sluice-redis/sluice/loader"
)

// Mux is net/http alone.
func Mux(limits *loader.Loader) http.Handler {
	limited, mux := newMiddleware(limits), http.NewServeMux()
	mux.Handle("GET /hello", limited.hello(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	})))
	mux.Handle("GET /orders/{id}", limited.order(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.PathValue("id"))
	})))
	mux.Handle("POST /login", limited.login(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !known(r) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})))
	return mux
}
