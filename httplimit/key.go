package httplimit

import (
	"net/http"

	"github.com/sluice-redis/sluice/internal/admit"
)

// Key says whom a request is counted for: it makes the subject of a limiter. Make one with KeyByIP, KeyByHeader,
// KeyByCookie, KeyByUser, KeyByPathValue, KeyBy or KeyOf, and join several with Join. Subject says how the subject is
// made of them.
//
// A request may have no value for a key: no such header, say, or one that is not UTF-8. By default it is then refused
// with status 400: see IfEmpty. The zero Key has no value for any request.
type Key struct{ key admit.Key[*http.Request] }

// IfEmpty returns the key with a choice of what happens to a request that has no value for it.
func (k Key) IfEmpty(choice Empty) Key { return Key{k.key.IfEmpty(choice)} }

// Check returns what is wrong with the key.
func (k Key) Check() error { return k.key.Check() }

// Subject returns the subject for a request and ShareEmpty. If it has none, the subject is "" and the choice
// RefuseEmpty or SkipEmpty.
func (k Key) Subject(r *http.Request) (subject string, choice Empty) { return k.key.Subject(r) }

// Empty is what happens to a request that has no value for a Key: see Key.IfEmpty.
type Empty = admit.Empty

const (
	// RefuseEmpty refuses the request with status 400. It is the default.
	RefuseEmpty = admit.RefuseEmpty

	// SkipEmpty does not count the request under this key. Whoever leaves the value out is then not limited by it: use
	// it only beside another limit, or where only some requests have the value.
	SkipEmpty = admit.SkipEmpty

	// ShareEmpty counts all requests without a value together, as one subject of their own.
	ShareEmpty = admit.ShareEmpty
)

// KeyByHeader counts by the first value of a header. Use it for values that the caller cannot choose freely, such as an
// API key that has been checked: a caller who may send anything is a new subject with each request.
func KeyByHeader(name string) Key {
	name = http.CanonicalHeaderKey(name)
	return KeyBy(func(r *http.Request) string { return r.Header.Get(name) })
}

// KeyByCookie counts by the value of a cookie. What is said of KeyByHeader holds for it too.
func KeyByCookie(name string) Key {
	return KeyBy(func(r *http.Request) string {
		cookie, err := r.Cookie(name)
		if err != nil {
			return ""
		}
		return cookie.Value
	})
}

// KeyByUser counts by the user name of basic authentication, whether or not the password is right. Use it to limit
// attempts for an account.
func KeyByUser() Key {
	return KeyBy(func(r *http.Request) string {
		user, _, _ := r.BasicAuth()
		return user
	})
}

// KeyByPathValue counts by a wildcard of the http.ServeMux pattern: KeyByPathValue("id") with "/orders/{id}". The mux
// must have matched before: put the middleware around the handler, not around the mux.
func KeyByPathValue(name string) Key {
	return KeyBy(func(r *http.Request) string { return r.PathValue(name) })
}

// KeyBy counts by what a function returns; "" is no value.
func KeyBy(value func(*http.Request) string) Key { return Key{admit.KeyBy(value)} }

// KeyOf counts all requests under these values. Use it to count a whole service together, and where the values are
// known already: see PerRequest.
func KeyOf(values ...string) Key { return Key{admit.KeyOf[*http.Request](values...)} }

// Join counts by several keys together: by address and account, say. Two requests are counted together only if all of
// their values are equal. Each key keeps its choice for an empty value; if they differ, RefuseEmpty goes before
// SkipEmpty.
func Join(keys ...Key) Key {
	joined := make([]admit.Key[*http.Request], len(keys))
	for i, k := range keys {
		joined[i] = k.key
	}
	return Key{admit.Join(joined...)}
}

// Subject returns the subject under which requests with these values are counted. Use it to look a subject up or to
// unblock it: login.Reset(ctx, httplimit.Subject("192.0.2.7", "ada")).
//
// Values are joined by "|". In a value "~" is written ~0 and "|" is written ~1. An empty value is written ~, and one of
// more than 128 bytes as ~2 and its SHA-256 hash in unpadded base64url, so that no caller can store long keys. So
// different lists of values have different subjects, and most values are written as they are.
func Subject(values ...string) string { return admit.Subject(values...) }
