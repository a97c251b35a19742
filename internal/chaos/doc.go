// Package chaos is tests of all scripts on real deployments to which bad things happen: a Redis Cluster, a Ring,
// and a master watched by Sentinels, under load while servers are killed, slots move and script caches are
// flushed; and a long mixed load that must leave nothing behind.
//
// Every grant is written down with the moment that the server granted it for, and audited afterwards: what
// was granted beyond a limit must be explained by writes that a killed server took to its grave. How many
// those can have been is measured, by the replication offset at which its replica took over.
//
//	make chaos                # the long runs, with their figures
//	make soak-load SOAK=30m   # the mixed load
package chaos
