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
