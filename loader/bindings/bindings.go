// Package bindings has one typed function for each script, generated from the script's header. Use it to run a script
// with keys and arguments of your own; for everything else use the limiters of package loader, which choose keys,
// ids and limits.
//
//	reply, err := bindings.GCRAV1(ctx, limits, bindings.GCRAV1Args{
//		Bucket: key, Limit: 100, Window: time.Minute, Burst: 20, Permits: 1,
//	})
package bindings

import (
	"context"

	"github.com/sluice-redis/sluice"
)

// Caller runs a script: a *loader.Loader.
type Caller interface {
	// Call runs a script and returns its reply, whose fields the script's header names. See loader.Loader.Call.
	Call(ctx context.Context, script *sluice.Script, keys []string, args ...any) ([]int64, error)
}
