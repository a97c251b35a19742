-- Faulty on purpose. S4: assert() turns a mistake of the caller into a crash of the script.
local rate, interval, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local entries, counter = KEYS[2], KEYS[3]
assert(permits <= rate, "Requested permits amount could not exceed defined rate")
redis.call("SET", counter, rate - permits)
return {permits, rate - permits, 0, interval, now, rate, interval}
