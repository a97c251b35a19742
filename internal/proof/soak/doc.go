// Package soak has all limiters used while what is around them fails, and audits what the callers saw: the times of
// their grants, the kinds of their errors, what was charged, the slots that were held at once, and the goroutines that
// are left. Its tests are two scenarios.
//
// TestAttack is a soak while everything fails that can fail around limiters: connections go silent, replies come late
// or are cut, ports refuse, hooks panic, callers give up, memory is full, servers are stopped and restarted. One server
// and a cluster of three masters are attacked at the same time, each server behind a proxy. It fails when a call
// outlives its bound, when a limiter lets more through than its limit or has charged for permits that no caller can
// have got or that were given back, when more slots are held at once than there are or are left when all are released,
// when service is not back within a second of a fault's end, when memory or goroutines grow, when a key is left on the
// single server a year later, and when a fault missed a limiter in one of its modes. One seed decides what fails,
// where, when and for how long.
//
//	make attack                              # five minutes, with the figures
//	make attack ATTACK=60s ATTACK_SEED=7     # shorter, and the faults of seed 7 again
//	make attack ATTACK=30m                   # a soak
//
// TestCluster, TestRing and TestSentinel have servers killed for good, slots moved and script caches flushed
// under load. Every grant is recorded with the server's time. Permits beyond a limit must be explained by writes that a
// killed server had not replicated, which the replication offset measures at which the replica took over.
//
//	make chaos   # the long runs, with their figures
package soak
