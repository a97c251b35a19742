-- one v1
--
-- A script about one key, from which the generator makes the script for many keys:
-- the generator's tests read both, and no server. A bit in a string, which is set
-- once and then stays until it expires.
--
-- KEYS[1]     bit          <prefix>:<limiter>:{<subject>}:on1
--
-- ARGV[1]     permits      int   1..10                   to take, which
--                                                        goes on in a second line
--
-- REPLY[1]    granted      int   0..10                   permits granted
-- REPLY[2]    wait         us    0..                     until the bit is unset,
--                                                        in microseconds
-- REPLY[3]    now          time  0..                     the server's clock
--
-- ERROR       BADARG       an argument is not in its range
-- ERROR       WRONGTYPE    bit holds something other than a string
-- ERROR       BADSTATE     bit holds something other than 1
--
-- STATE       on/1         the digit 1; expires after a second
-- COMPLEXITY  O(1)         TIME, two commands
-- REDIS       5.0

-- PART arguments: printed by make generate
-- END

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

local seen = {}
local function is_set(text)
  return text == "1"
end

-- MANY: one_many_v1 repeats what follows for 1..8 keys, keys * permits up to 20, 5 calls of is_set.

local stored = redis.pcall("GET", bit)
if type(stored) == "table" then return stored end
if is_set(stored) then return {0, 1000000, now} end
if stored then return redis.error_reply("BADSTATE bit: want 1") end
local granted = permits
redis.call("SET", bit, "1", "PX", "1000")
return {granted, 0, now}
