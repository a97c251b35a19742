// Package chaos tests all scripts on real deployments with faults: a Redis Cluster, a Ring, and a master with
// Sentinels, under load while servers are killed, slots move and script caches are flushed.
//
// Every grant is recorded with the server's time and audited afterwards. Permits beyond a limit must be explained by
// writes that a killed server had not replicated. Their number is measured by the replication offset at which the
// replica took over.
//
//	make chaos   # the long runs, with their figures
package chaos
