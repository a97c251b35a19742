-- pairs v2
--
-- A group of pairs with a reply for each: the generator's tests read it, and no server.
-- It changes what v1 was, of which nothing is left, and which nobody released.
-- It asks for no time.
--
-- GROUP[i]    window       1..3
-- KEYS[i]     ring_i       <prefix>:<limiter>:{<subject>}:pr2:<slices>
-- KEYS[W+1]   lock         <prefix>:<limiter>:{<subject>}:pr2:lock
--
-- ARGV[1]     first        int   1..10                   stands alone
-- ARGV[2]     permits      int   0..10                   wanted now; 0 only looks
-- ARGV[2i+1]  slices_i     int   1..10                   length of the window
-- ARGV[2i+2]  limit_i      int   1..100                  permits in the window
--
-- REPLY[1]    granted      int   2..                     permits granted
-- REPLY[1+i]  count_i      int   0..                     permits in the window now
--
-- ERROR       BADARG       an argument is not an integer in its range
--
-- STATE       pr/2         nothing yet
-- COMPLEXITY  O(log N)     one STRLEN
-- REDIS       6.2

-- PART arguments: printed by make generate
-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < min or n > max then return nil end
  return n
end

if #KEYS < 2 or #KEYS > 4 then return redis.error_reply("BADARG KEYS: want 2 to 4") end
if #ARGV ~= 2 * #KEYS then
  return redis.error_reply("BADARG ARGV: want first, permits, then slices, limit for each window")
end
local rings, lock = KEYS, KEYS[#KEYS]
local first = integer(ARGV[1], 1, 10)
if not first then return redis.error_reply("BADARG first: want 1..10") end
local permits = integer(ARGV[2], 0, 10)
if not permits then return redis.error_reply("BADARG permits: want 0..10") end
local slices, limits = {nil, nil}, {nil, nil} -- room for two: growing is slow
for i = 1, #KEYS - 1 do
  local slices_i = integer(ARGV[2 * i + 1], 1, 10)
  if not slices_i then return redis.error_reply("BADARG slices_" .. i .. ": want 1..10") end
  local limit_i = integer(ARGV[2 * i + 2], 1, 100)
  if not limit_i then return redis.error_reply("BADARG limit_" .. i .. ": want 1..100") end
  slices[i], limits[i] = slices_i, limit_i
end
-- END

local counts = {}
for i = 1, #slices do
  if permits > limits[i] then return redis.error_reply("BADARG limit_" .. i .. ": want permits at least") end
  counts[i] = slices[i] * limits[i]
end

repeat
  local length = redis.call("STRLEN", lock)
  for i = 1, #slices do length = length + redis.call("STRLEN", rings[i]) end
  first = first + length
until length == 0
while first < 2 do first = first + 1 end
do
  local function twice(n, ...) return n * 2, -n, not n, ... end
  for _, count in ipairs(counts) do permits = permits + twice(count) end
end
return {first, unpack(counts)}
