// Package policy reads rate limits from a file and applies them to requests.
package policy
