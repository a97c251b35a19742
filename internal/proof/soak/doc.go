// Package soak has all limiters used while what is around them fails, and audits what the callers saw: the times of
// their grants, the kinds of their errors, what was charged, the slots that were held at once, and the goroutines that
// are left. Its tests are three scenarios.
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
// TestCluster, TestRing and TestSentinel are the same attack on deployments that get over the end of a server: servers
// are killed for good, slots moved and script caches flushed. What a killed server had not replicated, which the
// replication offset measures at which the replica took over, is taken out of the books. The rest is judged as ever.
//
//	make chaos   # the long runs, with their figures
//
// TestServerOutage, TestServerOutageNginx, TestServerBlips and TestServerFailoverIsABlip have callers in Go, Python and
// Node and behind nginx ask without a pause, and count what they notice of an outage or a blip.
//
//	make audit-outage   # the long runs, with and without a breaker
//
// # What they are made of
//
//   - grants.go is the log of grants ([Record]) and the judge: what no window, bucket or number of slots may hold. Other
//     packages judge by it too.
//   - A crowd is callers who do one thing again and again, a tally counts what happens by name, and kindOf names an error.
//   - A script is one kind of limiter, and a mode one way to use it. Both are tables (mode_test.go).
//   - A site is a deployment, mostly behind proxies. A row is one script in one mode on one site, with a book of what
//     its subjects were answered, and workers who ask questions.
//   - A called is a question with its answers, and what judges them (verdict_test.go). A check asks every row until
//     service is back. A pulse tells how slow the machine is meanwhile, and so what cannot be judged.
//   - A fault is a row of the table in fault_test.go, and an event is a fault with its time and its servers.
//   - A loss is what an event may have undone of what the callers were answered.
//   - A place is where callers ask (outage_places_test.go), and a load what they notice.
//
// judge_test.go, and the tests beside what they test, have the judges see one fault each.
package soak
