// Package envoyfile reads the YAML files of envoyproxy/ratelimit as they are, and finds the limit of a descriptor by
// the rules of envoyproxy/ratelimit.
//
// At each level of a file an entry of a descriptor goes to the descriptor with its key and value, or else to the first
// in the file whose pattern it matches, or else to the one with its key alone. There is no way back: if a more specific
// descriptor has nothing for the next entry, the less specific one is not tried. A limit holds for a descriptor that
// ends where it stands.
//
// What envoyproxy/ratelimit refuses is refused. Mistakes are told as those of package policy.
//
// Use it to serve, to check or to convert such files: see Convert.
package envoyfile
