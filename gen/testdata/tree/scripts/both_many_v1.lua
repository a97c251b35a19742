-- both_many v1
--
-- both_v1 for up to 8 keys of one limiter in one call. KEYS has the rings of the first subject, then of the next.
-- REPLY goes on with EACH for each subject in turn. Each is decided as by both_v1, and twice if it is named twice.
-- Only granted above 0 is a grant. One that cannot be decided has granted -1 (BADSTATE) or -2 (WRONGTYPE); the others
-- are decided. If Redis refuses a command, for example by an ACL, the call ends with that error, and those before it
-- keep their grants: too much is counted, never too little. In a cluster all keys must lie in one slot: different
-- subjects mostly do not.
--
-- GROUP[k]    subject      1..8
-- GROUP[i]    window       1..3
-- KEYS[ki]    ring_i       <prefix>:<limiter>:{<subject>}:bo1:<slices>
--
-- ARGV[1]     slice        us    1..10                   length of a slice
-- ARGV[2]     permits      int   0..10                   wanted now
-- ARGV[2i+1]  slices_i     int   1..10                   length of the window
-- ARGV[2i+2]  limit_i      int   1..100                  permits in the window
--
-- REPLY[1]    now          time  0..                     the server's clock
-- EACH[1]     granted      int   -2..10                  permits granted; -1: BADSTATE, -2: WRONGTYPE
-- EACH[2]     wait         us    0..                     until they come free
-- EACH[2+i]   count_i      int   0..                     permits in the window now,
--                                                        or so
--
-- ERROR       BADARG       an argument is not in its range
-- ERROR       WRONGTYPE    granted -2: a ring holds something other than a string
--
-- STATE       bo/1         as both_v1
-- COMPLEXITY  O(K log N)   one TIME, then as both_v1 for each of K subjects
-- REDIS       5.0

-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < min or n > max then return nil end
  return n
end

if #KEYS < 1 or #KEYS > 8 then return redis.error_reply("BADARG KEYS: want 1 to 8") end
local windows = (#ARGV - 2) / 2
if windows < 1 or windows > 3 or windows % 1 > 0 then
  return redis.error_reply("BADARG ARGV: want slice, permits, then slices, limit for each window")
end
if #KEYS % windows > 0 then return redis.error_reply("BADARG KEYS: want one for each window of each subject") end
local slice = integer(ARGV[1], 1, 10)
if not slice then return redis.error_reply("BADARG slice: want 1..10") end
local permits = integer(ARGV[2], 0, 10)
if not permits then return redis.error_reply("BADARG permits: want 0..10") end
local slices, limits = {nil, nil}, {nil, nil} -- room for two: growing is slow
for i = 1, windows do
  local slices_i = integer(ARGV[2 * i + 1], 1, 10)
  if not slices_i then return redis.error_reply("BADARG slices_" .. i .. ": want 1..10") end
  local limit_i = integer(ARGV[2 * i + 2], 1, 100)
  if not limit_i then return redis.error_reply("BADARG limit_" .. i .. ": want 1..100") end
  slices[i], limits[i] = slices_i, limit_i
end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

-- Decides about one subject, as both_v1 does. Returns the fields of its reply, or an error.
local function decide(rings)
  local counts = {}
  for i = 1, #slices do
    local stored = redis.pcall("GET", rings[i])
    if type(stored) == "table" then return stored end
    counts[i] = slices[i] * limits[i]
  end
  return permits, slice, counts
end

-- An error of one subject becomes a number, so that the others are decided. Any other, such as a right withheld by an
-- ACL, ends the call: what was granted before it stays.
local reply, n = {now}, 1
for k = 1, #KEYS / windows do
  local granted, wait, counts = decide({unpack(KEYS, (k - 1) * windows + 1, k * windows)})
  if not wait then
    local code = granted.err:match("^%u+")
    if code ~= "BADSTATE" and code ~= "WRONGTYPE" then return granted end
    granted, wait, counts = code == "BADSTATE" and -1 or -2, 0, {}
  end
  reply[n + 1], reply[n + 2] = granted, wait
  n = n + 2
  for i = 1, windows do reply[n + i] = counts[i] or 0 end
  n = n + windows
end
return reply
