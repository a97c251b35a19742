-- quota_return v1
--
-- Gives back permits that quota granted and that were not used: it lowers what their period holds.
-- Permits of a period are alike: a caller that gives back more than it was granted takes permits of
-- others. After a lost reply, do not send it again. It needs no clock.
--
-- KEYS[1]     quota        <prefix>:<limiter>:{<subject>}:qt1
--
-- ARGV[1]     begin        time  0..9007199254740991     begin of the period, from quota's reply
-- ARGV[2]     permits      int   1..1000000000000        to give back
--
-- REPLY[1]    returned     int   0..1000000000000        by how much the count fell; 0 in another period
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    quota holds something other than a string
-- ERROR       BADSTATE     quota holds a text that is not in the layout qt/1
--
-- STATE       qt/1         quota's; it keeps its expiry, and may hold a count of 0
-- COMPLEXITY  O(1)         one GET, at most one PTTL and one SET
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 2 then return redis.error_reply("BADARG ARGV: want 2") end
local quota = KEYS[1]
local begin = integer(ARGV[1], 0, 9007199254740991)
if not begin then return redis.error_reply("BADARG begin: want 0..9007199254740991") end
local permits = integer(ARGV[2], 1, 1000000000000)
if not permits then return redis.error_reply("BADARG permits: want 1..1000000000000") end
-- END

local stored = redis.pcall("GET", quota)
if type(stored) == "table" then return stored end
local max_exact, max_count = 9007199254740991, 10000000000000 -- 2^53 - 1: up to there a Lua number is exact
local begin_text, count_text = (stored or "0 0"):match("^(%d+) (%d+)$")
local stored_begin, count = tonumber(begin_text or ""), tonumber(count_text or "")
if not stored_begin or stored_begin > max_exact or count > max_count then
  return redis.error_reply("BADSTATE quota: want a begin and a count")
end

local returned = math.min(permits, count)
if stored_begin ~= begin or returned == 0 then return {0} end
local state = begin_text .. " " .. count - returned
local ttl = redis.call("PTTL", quota) -- below 0 where an operator made it stay
if ttl < 0 then
  redis.call("SET", quota, state)
else
  redis.call("SET", quota, state, "PX", string.format("%.0f", math.max(ttl, 1)))
end
return {returned}
