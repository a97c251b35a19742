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
-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < min or n > max then return nil end
  return n
end

if #KEYS < 1 or #KEYS > 3 then return redis.error_reply("BADARG KEYS: want 1 to 3") end
if #ARGV ~= 2 + 2 * #KEYS then
  return redis.error_reply("BADARG ARGV: want slice, permits, then slices, limit for each window")
end
local rings = KEYS
local slice = integer(ARGV[1], 1, 10)
if not slice then return redis.error_reply("BADARG slice: want 1..10") end
local permits = integer(ARGV[2], 0, 10)
if not permits then return redis.error_reply("BADARG permits: want 0..10") end
local slices, limits = {nil, nil}, {nil, nil} -- room for two: growing is slow
for i = 1, #KEYS do
  local slices_i = integer(ARGV[2 * i + 1], 1, 10)
  if not slices_i then return redis.error_reply("BADARG slices_" .. i .. ": want 1..10") end
  local limit_i = integer(ARGV[2 * i + 2], 1, 100)
  if not limit_i then return redis.error_reply("BADARG limit_" .. i .. ": want 1..100") end
  slices[i], limits[i] = slices_i, limit_i
end
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
