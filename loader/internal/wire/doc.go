// Package wire asks one server one question, until it is answered or it is known that it never will be.
//
//	Ask ─> Admit ─> Attempt ─> Send ─> Judge ─> answered, or an error that a retry would not cure: the end
//	         │         ^                 ├─ NOSCRIPT ───────────────> Load the script (then its source) ──┐
//	      breaker      │                 ├─ TRYAGAIN, LOADING, .. ──> Pause ──────────────────────────────┤
//	      is open:     │                 ├─ not sent: no connection > Pause ──────────────────────────────┤
//	      the end      │                 ├─ reply lost: ID or Looks > Pause ──────────────────────────────┤
//	                   │                 ├─ reply lost: neither ────> Unknown: the end                   │
//	                   │                 ├─ not decided as one of many keys: by itself, or Load ──────────┤
//	                   │                 └─ the time is up ─────────> Unknown if sent: the end           │
//	                   └──────────────────────────────────────────────────────────────────────────────────┘
//
// A [Call] is one [Question] with what its attempts have shown. Ask makes the attempts of one call. Callers that send
// many calls at once make the same steps for each: Attempt, Judge, then AfterLoad and AfterPause of what the [Step]
// asks for. The words of a command are made in one place, when an attempt is sent: [Client.Words].
//
// In reading order: ask, breaker, step, fault, load, command, task, client, node, deadline, failure, reason, preload,
// once, log, raised.
package wire
