-- small v1
--
-- A counter of calls | <every> row * that stands alone: the generator's tests read
-- it, and no server. A window begins with the first call, and is no concern of
-- anyone but them.
--
-- KEYS[1]     all          <prefix>:<limiter>:{<subject>}:sm1
-- KEYS[2]     by_client    <prefix>:<limiter>:{<subject>}:sm1:by:<client>
--
-- ARGV[1]     limit        int   1..100                  calls in a window
-- ARGV[2]     max_wait     us    0..86400000000          looks ahead this far, which
--                                                        goes on in a second line
-- ARGV[3]     id           str   1..8                    of the client
--
-- REPLY[1]    granted      int   0..1                    1: go ahead
-- REPLY[2]    wait         us    0..                     until the next window
-- REPLY[3]    now          time  0..                     the server's clock
--
-- ERROR       BADARG       an argument is not in its range
-- ERROR       WRONGTYPE    a key holds something other than a string
-- ERROR       BADSTATE     a key holds something other than a number
--
-- STATE       sm/1         calls in the window, in decimal digits,
--                          which expires with the window
-- COMPLEXITY  O(1)         TIME, two commands
-- REDIS       5.0

-- PART arguments: printed by make generate
-- END

if id == "all" then return redis.error_reply("BADARG id: want another than all") end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

local count = id == "any" and all or by_client
local stored = redis.pcall("GET", count)
if type(stored) == "table" then return stored end
local calls = integer(stored or "0", 0, 100)
if not calls then return redis.error_reply("BADSTATE " .. id .. ": want a number") end

local struct = rawget(_G, "struct")
local seen = {packed = struct ~= nil}
seen.calls = calls
if calls < limit then
  redis.call("SET", count, string.format("%.0f", seen.calls + 1), "PX", 1 + max_wait)
  return {1, 0, now}
end
return {0, max_wait, now}
