-- one_many v1
--
-- one_v1 for up to 8 keys of one limiter in one call. REPLY goes on with EACH for each key in turn. Each key is
-- decided as by one_v1, and twice if it is named twice. K is the number of keys. Only granted above 0 is a grant. One
-- that cannot be decided has granted -1 (BADSTATE) or -2 (WRONGTYPE); the others are decided. If Redis refuses a
-- command, for example by an ACL, the call ends with that error, and those before it keep their grants: too much is
-- counted, never too little. In a cluster all keys must lie in one slot: different subjects mostly do not. Granted
-- -3: not decided and not charged, because the keys before it have read 5 entries. Expect it in calls for more than
-- 15 keys. Ask for these keys again.
--
-- GROUP[k]    subject      1..8
-- KEYS[k]     bit          <prefix>:<limiter>:{<subject>}:on1
--
-- ARGV[1]     permits      int   1..10                   to take, which
--                                                        goes on in a second line
--
-- REPLY[1]    now          time  0..                     the server's clock
-- EACH[1]     granted      int   -3..10                  permits granted; -1: BADSTATE, -2: WRONGTYPE, -3: ask again
-- EACH[2]     wait         us    0..                     until the bit is unset,
--                                                        in microseconds
--
-- ERROR       BADARG       an argument is not in its range
-- ERROR       WRONGTYPE    granted -2: bit holds something other than a string
-- ERROR       BADSTATE     granted -1: bit holds something other than 1
--
-- STATE       on/1         as one_v1
-- COMPLEXITY  O(K)         one TIME, then as one_v1 for each of K subjects
-- REDIS       5.0

-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < min or n > max then return nil end
  return n
end

if #KEYS < 1 or #KEYS > 8 then return redis.error_reply("BADARG KEYS: want 1 to 8") end
if #ARGV ~= 1 then return redis.error_reply("BADARG ARGV: want 1") end
local permits = integer(ARGV[1], 1, 10)
if not permits then return redis.error_reply("BADARG permits: want 1..10") end

if #KEYS * permits > 20 then
  return redis.error_reply("BADARG permits: want keys * permits up to 20")
end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

local seen = {}
local calls = 0 -- of is_set, for all keys
local function is_set(text)
  calls = calls + 1
  return text == "1"
end

-- Decides about one subject, as one_v1 does. Returns the fields of its reply, or an error.
local function decide(bit)
  local stored = redis.pcall("GET", bit)
  if type(stored) == "table" then return stored end
  if is_set(stored) then return 0, 1000000 end
  if stored then return redis.error_reply("BADSTATE bit: want 1") end
  local granted = permits
  redis.call("SET", bit, "1", "PX", "1000")
  return granted, 0
end

-- An error of one subject becomes a number, so that the others are decided. Any other, such as a right withheld by an
-- ACL, ends the call: what was granted before it stays.
local reply, n = {now}, 1
for k = 1, #KEYS do
  local granted, wait = -3, 0 -- not decided: the keys before it took too long
  if calls < 5 then granted, wait = decide(KEYS[k]) end
  if not wait then
    local code = granted.err:match("^%u+")
    if code ~= "BADSTATE" and code ~= "WRONGTYPE" then return granted end
    granted, wait = code == "BADSTATE" and -1 or -2, 0
  end
  reply[n + 1], reply[n + 2] = granted, wait
  n = n + 2
end
return reply
