// Package repo has the tests of what stands in this repository beside code: the pages and the commands in them, the
// modules' versions, the rights that a database administrator grants, and what a release installs.
package repo
