package policy

import "github.com/sluice-redis/sluice/policy/internal/yamlfile"

// Mistake is one thing that is wrong in a file, and what would be right: its File, its Line and Column from 1, What and
// Want. As an error it is `file:line:column: what: want what`.
type Mistake = yamlfile.Mistake

// Mistakes is what is wrong in a file, in the order of its lines: everything, but no more than 1000. In what is not
// YAML, and in an expression that is not CEL, it may be only the first thing. Parse and Load return it as their error:
// find it with errors.AsType. As an error it shows the first 20.
type Mistakes = yamlfile.Mistakes
