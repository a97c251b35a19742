package together

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// sharing is the Sender of calls that share round trips: it collects the commands of concurrent callers. It is used in
// place of go-redis's AutoPipeline, which is experimental, does not work with a Ring, keeps callers whose context has
// ended, and shares its goroutines and settings with all other users of the client.
type sharing struct {
	client *Client

	mu     sync.Mutex
	queues map[*redis.Client]*nodeQueue // those in use
	groups map[groupKey]*group          // those with a member
}

// nodeQueue is the queue of one node. A node that does not answer does not delay the others.
type nodeQueue struct {
	node      *redis.Client
	inFlight  int      // pipelines and direct calls, or goroutines about to make a pipeline
	items     []queued // for the next pipeline
	abandoned int      // items whose callers have left
	starting  bool     // a goroutine has been started that will make the next pipeline
}

// queued is one member, or a group in place of all its waiting members.
type queued struct {
	single *member
	group  *group
}

// groupKey is what all callers in a group ask for.
type groupKey struct {
	key     string
	permits int64
}

// group is the callers who ask for the same number of permits of the same subject, under the same limit. While commands
// of a group are in flight, new callers wait; then one command asks for the permits of many. Each caller gets the
// answer that a single call would have got at that time.
//
// How many callers Redis can grant permits to is not known in advance, so a group keeps two numbers. room is the number
// of callers for whom permits remained after the last reply. More permits may have become free since; reach is the
// number of callers beyond room that are tried in the next pipeline: see sizes and learn.
type group struct {
	groupKey
	question   *wire.Question // of each of them
	maxCallers int64          // for how many callers one command may ask

	waiting   []*member // in order of arrival
	abandoned int       // members of waiting whose callers have left
	queued    bool
	inFlight  bool
	room      int64
	reach     int64
}

// member is one caller's command, in a pipeline by itself or in a group.
type member struct {
	cmd       *wire.Command
	ctx       context.Context
	queue     *nodeQueue // of its node
	group     *group     // nil: its command is not shared
	pipeline  *pipeline  // nil: not in flight
	abandoned bool       // its caller has left

	done      chan struct{} // closed when the fields below are set
	completed bool
	err       error
	raised    *wire.Raised

	shared *wire.Answer // the reply to a command that asked for other callers too
}

// pipeline is one round trip to a node.
type pipeline struct {
	cmds    []redis.Cmder
	singles []*member
	batches []*groupBatch

	ctx      context.Context // ends at the deadline, and when all callers have left
	cancel   context.CancelFunc
	deadline time.Time     // the latest of the callers'
	callers  int           // who still wait
	last     *member       // any of them
	timeout  time.Duration // the shortest of the callers'
	ended    bool          // its callers have their outcomes, or have left
	slow     bool          // its place is free, although it has not ended

	returned chan struct{} // closed when go-redis has returned and all members have what was answered
	err      error
	raised   *wire.Raised
}

// groupBatch is a group's part of one pipeline.
type groupBatch struct {
	*group
	members  []*member       // all who waited
	commands []*groupCommand // for the first of them
}

// groupCommand is one command of a batch. It asks for the permits of those of its members who still wait when it is
// written.
type groupCommand struct {
	*wire.Command
	batch   *groupBatch
	members []*member

	claimOnce sync.Once
	written   bool
	asked     int64 // for how many members it asked

	err error // set when the pipeline has ended
}
