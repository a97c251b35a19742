package play

import "github.com/sluice-redis/sluice/internal/lua51"

// Stored is what is stored under the keys of a call.
type Stored struct {
	Now int64 `json:"now"`
}

// Stored returns what the keys of a lane's last call hold now.
func (r *Run) Stored(lane int) (Stored, error) { return Stored{}, nil }

func (l *lane) stored(commands []lua51.Command) Stored { return Stored{} }
