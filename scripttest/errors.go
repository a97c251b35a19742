package scripttest

import "github.com/sluice-redis/sluice/internal/lua51"

// Status is a simple string reply, such as "OK". Its underlying type is string.
type Status = lua51.Status

// ErrorReply is an error reply as Redis 7 sends it, without the "-" before it. Its underlying type is string.
type ErrorReply = lua51.ErrorReply

// BudgetError ends a run that took more instructions than its script may take. Its fields are Script, the script's
// name, and Budget, how many VM instructions that is.
type BudgetError = lua51.BudgetError

// UnsupportedError ends a run, or refuses a script, that needs what this package does not emulate. Its field What
// says in words what that is.
type UnsupportedError = lua51.UnsupportedError
