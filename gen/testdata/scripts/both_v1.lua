-- both v1
--
-- A script for many keys that has pairs: the generator's tests read it, and no server.
-- Each pair has a key.
-- Its counts are products.
--
-- GROUP[i]    window       1..3
-- KEYS[i]     ring_i       <prefix>:<limiter>:{<subject>}:bo1:<slices>
--
-- ARGV[1]     slice        us    1..10                   length of a slice
-- ARGV[2]     permits      int   0..10                   wanted now
-- ARGV[2i+1]  slices_i     int   1..10                   length of the window
-- ARGV[2i+2]  limit_i      int   1..100                  permits in the window
--
-- REPLY[1]    granted      int   0..10                   permits granted
-- REPLY[2]    wait         us    0..                     until they come free
-- REPLY[3]    now          time  0..                     the server's clock
-- REPLY[3+i]  count_i      int   0..                     permits in the window now,
--                                                        or so
--
-- ERROR       BADARG       an argument is not in its range
-- ERROR       WRONGTYPE    a ring holds something other than a string
--
-- STATE       bo/1         nothing yet
-- COMPLEXITY  O(log N)     TIME, one GET
-- REDIS       5.0

-- PART arguments: printed by make generate
-- END

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

-- MANY: both_many_v1 repeats what follows for 1..8 keys.

local counts = {}
for i = 1, #slices do
  local stored = redis.pcall("GET", rings[i])
  if type(stored) == "table" then return stored end
  counts[i] = slices[i] * limits[i]
end
return {permits, slice, now, unpack(counts)}
