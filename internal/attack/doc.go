// Package attack is a soak of all limiters while everything fails that can fail around them: connections go silent,
// replies come late or are cut, ports refuse, hooks panic, callers give up, memory is full, servers are stopped and
// restarted. One server and a cluster of three masters are attacked at the same time, each server behind a proxy.
//
// It fails when a call outlives its bound, when a limiter lets more through than its limit or has charged for permits
// that no caller can have got or that were given back, when more slots are held at once than there are or are left when
// all are released, when service is not back within a second of a fault's end, when memory or goroutines grow, when a
// key is left on the single server a year later, and when a fault missed a limiter in one of its modes. One seed
// decides what fails, where, when and for how long.
//
//	make attack                              # five minutes, with the figures
//	make attack ATTACK=60s ATTACK_SEED=7     # shorter, and the faults of seed 7 again
//	make attack ATTACK=30m                   # a soak
package attack
