-- both_many v1
--
-- both_v1 for up to 8 subjects of one limiter in one call. K is the number of keys. REPLY goes on with EACH for each
-- key in turn. Each key is decided as by both_v1, and twice if it is named twice. Only granted above 0 is a grant. A
-- key that cannot be decided has granted -1 (BADSTATE) or -2 (WRONGTYPE); the others are decided. If Redis refuses a
-- command, for example by an ACL, the call ends with that error, and keys before it keep their grants. What is slice
-- of that key and of later ones is not counted. In a cluster all keys must lie in one slot: different subjects mostly
-- do not. Granted -3: not decided and not charged, because the keys before it have used up the work of a call. Expect
-- it with more than 40 new or long idle rings (2 windows of 201 slices). Ask for these keys again, with what is
-- slice: it was not counted either.
--
-- GROUP[k]    subject      1..8
-- KEYS[k]     ring         <prefix>:<limiter>:{<subject>}:bo1
--
-- GROUP[i]    window       1..3
-- ARGV[1]      permits     int   0..10                   wanted now
-- ARGV[k+1]    slice_k     us    1..10                   length of a slice
-- ARGV[K+2i]   slices_i    int   1..10                   length of the window
-- ARGV[K+2i+1] limit_i     int   1..100                  permits in the window
--
-- REPLY[1]    now          time  0..                     the server's clock
-- EACH[1]     granted      int   -3..10                  permits granted; -1: BADSTATE, -2: WRONGTYPE, -3: ask again
-- EACH[2]     wait         us    0..                     until they come free
-- EACH[2+i]   count_i      int   0..                     permits in the window now,
--                                                        or so
--
-- ERROR       BADARG       an argument is not in its range
-- ERROR       WRONGTYPE    granted -2: ring holds something other than a string
--
-- STATE       bo/1         as both_v1
-- COMPLEXITY  O(K log N)   one TIME, then as both_v1 for each of K keys
-- REDIS       5.0

-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < min or n > max then return nil end
  return n
end

if #KEYS < 1 or #KEYS > 8 then return redis.error_reply("BADARG KEYS: want 1 to 8") end
if #ARGV - #KEYS < 3 or #ARGV - #KEYS > 7 or (#ARGV - #KEYS) % 2 ~= 1 then
  return redis.error_reply("BADARG ARGV: want permits, each key's slice, then slices, limit of 1..3 windows")
end
local permits = integer(ARGV[1], 0, 10)
if not permits then return redis.error_reply("BADARG permits: want 0..10") end
local all_slice = {}
for k = 1, #KEYS do
  local slice_k = integer(ARGV[k + 1], 1, 10)
  if not slice_k then return redis.error_reply("BADARG slice_" .. k .. ": want 1..10") end
  all_slice[k] = slice_k
end
local slices, limits = {}, {}
for i = 1, (#ARGV - 1 - #KEYS) / 2 do
  local slices_i = integer(ARGV[#KEYS + 2 * i], 1, 10)
  if not slices_i then return redis.error_reply("BADARG slices_" .. i .. ": want 1..10") end
  local limit_i = integer(ARGV[#KEYS + 2 * i + 1], 1, 100)
  if not limit_i then return redis.error_reply("BADARG limit_" .. i .. ": want 1..100") end
  slices[i], limits[i] = slices_i, limit_i
end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

local reply, n = {now}, 1
local work = 0 -- for all keys
local first -- whether no key before this one has worked: then it is decided, whatever it needs
-- Adds to the work, unless that is too much for one call: then the key is not decided.
local function exceeds(more)
  if not first and work + more > 20 then return true end
  work = work + more
end

-- Decides about one key, as both_v1 does. Returns the fields of its reply, or an error.
local function decide(ring, slice)
  local stored = redis.pcall("GET", ring)
  if type(stored) == "table" then return stored end
  local counts = {}
  for i = 1, #slices do
    if exceeds(2) then
      return -3, 0, {}
    end
    counts[i] = slices[i] * limits[i]
  end
  if exceeds(stored and #stored or 1) then
    return -3, 0, {}
  end
  return permits, slice, counts
end

-- An error of one key becomes a number, so that the others are decided. Any other, such as a right withheld by an ACL,
-- ends the call: what was granted before it stays.
local windows = (#ARGV - 1 - #KEYS) / 2
for i = 1, #KEYS do
  local granted, wait, counts = -3, 0, {} -- not decided: the keys before it took too long
  first = work == 0
  if work < 20 then granted, wait, counts = decide(KEYS[i], all_slice[i]) end
  if not wait then
    local code = granted.err:match("^%u+")
    if code ~= "BADSTATE" and code ~= "WRONGTYPE" then return granted end
    granted, wait, counts = code == "BADSTATE" and -1 or -2, 0, {}
  end
  reply[n + 1], reply[n + 2] = granted, wait
  n = n + 2
  for j = 1, windows do reply[n + j] = counts[j] or 0 end
  n = n + windows
end
return reply
