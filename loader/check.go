package loader

// Check returns what is wrong with the limiter's name, limit and options, and with the options of its Loader. Call it
// once, when the program starts: if it returns nil, no call is refused for what the limiter was made with. Cost:
// nothing is sent.
func (c core) Check() error {
	_, err := c.key("any")
	return err
}

// Check returns what is wrong with the SliceRing that the permits are taken from. Call it once, when the program
// starts. Cost: nothing is sent.
func (l *Leased) Check() error { return l.ring.Check() }
