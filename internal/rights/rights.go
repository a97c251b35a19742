// Package rights has the commands that Redis clients send by themselves. The generator writes them into the manifest,
// and sluice acl grants them. A test in internal/proof/repo runs each client as a user who has these rights and no
// more, but those for Java, whose commands were seen with sluice try-caller.
package rights

// Client is a client library for Redis.
type Client struct {
	Name string

	// Single and Cluster are the commands that it sends beside those of its caller, to a single server and to a
	// cluster: sorted, a subcommand as container|subcommand. Those that a connection may send before it has a user,
	// such as HELLO, are left out.
	Single, Cluster []string
}

// Clients returns the clients that are known, the default first. All send PING to keep a connection alive, or if their
// caller asks for it, and ASKING while a slot moves to another node.
func Clients() []Client {
	return []Client{
		{"go-redis", []string{"ping"}, []string{"asking", "cluster|slots", "ping"}},
		{"redis-py", []string{"ping"}, []string{"asking", "cluster|slots", "command", "info", "ping"}},
		{"node-redis", []string{"ping"}, []string{"asking", "cluster|slots", "ping"}},
		{"ioredis", []string{"info", "ping"},
			[]string{"asking", "client|setname", "cluster|info", "cluster|slots", "info", "ping"}},
		{"jedis", []string{"ping"}, []string{"asking", "cluster|slots", "ping"}},
		{"lettuce", []string{"ping"}, []string{"asking", "cluster|nodes", "ping"}},
	}
}
