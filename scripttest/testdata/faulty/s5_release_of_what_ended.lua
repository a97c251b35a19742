-- Faulty on purpose. S5: a release says that it has freed a slot where only the member of an ended lease was left.
return {redis.call("ZREM", KEYS[1], ARGV[1])}
