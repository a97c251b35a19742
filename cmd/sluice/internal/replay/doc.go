// Package replay decides the requests of an access log by a policy file, without a server: the scripts run in this
// process, on the clock of the log.
package replay
