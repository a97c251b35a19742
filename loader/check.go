package loader

// Check says what is wrong with the limiter's name, limit and options, those of its Loader included: call it once,
// where the program starts. It is nil if no call will be refused for what the limiter was made with. Cost: nothing is
// sent.
func (c core) Check() error {
	_, err := c.key("any")
	return err
}

// Check says what is wrong with the ring that the permits are taken from: see SliceRing.Check. Cost: nothing is sent.
func (l *Leased) Check() error { return l.ring.Check() }
