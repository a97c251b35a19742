// Package wire asks one server one question, until it is answered or it is known that it never will be.
//
//	Ask ─> Admit ─> Attempt ─> Send ─> Judge ─> answered, or an error that a retry would not cure: the end
//	         │         ^                 ├─ the time is up ─────────> Unknown if sent: the end
//	      breaker      │                 ├─ NOSCRIPT ───────────────> Load the script, or send its source ┐
//	      is open:     │                 ├─ TRYAGAIN, LOADING, .. ──> Pause ──────────────────────────────┤
//	      the end      │                 ├─ not sent: no connection > Pause ──────────────────────────────┤
//	                   │                 ├─ reply lost: ID or Looks > Pause ──────────────────────────────┤
//	                   │                 ├─ reply lost: neither ────> Unknown: the end                    │
//	                   │                 ├─ not decided as one of many keys: by itself, or Load ──────────┤
//	                   └──────────────────────────────────────────────────────────────────────────────────┘
//
// The source is sent where scripts may not be loaded, and where a wrapper hides the node that lacks the script.
//
// A [Call] is one [Question] with what its attempts have shown. Ask makes the attempts of one call. Callers that send
// many calls at once make the same steps for each: Attempt, Judge, then AfterLoad and AfterPause of what the [Step]
// asks for. The words of a command are made in one place, before an attempt is sent: [Client.Words].
//
// In reading order: question, call, breaker, step, error, load, command, task, client, node, deadline, failure, hint,
// preload, once, panic.
package wire
