-- zset_log_return v1
--
-- Gives back permits of a zset_log by the id that they were granted to, if they were certainly
-- not used: it removes the id's members, the highest number first. The limit holds for the permits
-- that are not given back. It may be sent again after a lost reply, if all of the id's permits are
-- given back. An id of which a part was given back cannot ask zset_log again.
--
-- KEYS[1]     log          <prefix>:<limiter>:{<subject>}:zl1
--
-- ARGV[1]     id           str   1..128                  the request id that the permits were granted to, without "|"
-- ARGV[2]     permits      int   1..500                  to give back
--
-- REPLY[1]    returned     int   0..500                  permits given back
--
-- ERROR       BADARG       an argument is not in its range
-- ERROR       WRONGTYPE    log holds something other than a sorted set
-- ERROR       BADSTATE     log holds a score that is not a time in microseconds
--
-- STATE       zl/1         zset_log's: where the newest member goes, the expiry falls by as much as the
--                          newest score does
-- COMPLEXITY  O(log N)     ZSCORE by halving, ZCOUNT, ZRANGE, ZREM
-- REDIS       5.0

local function integer(text, least, most)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < least or n > most then return nil end
  return n
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 2 then return redis.error_reply("BADARG ARGV: want 2") end
local log = KEYS[1]
local id = ARGV[1]
if #id < 1 or #id > 128 or id:find("|") then return redis.error_reply("BADARG id: want 1 to 128 bytes without |") end
local permits = integer(ARGV[2], 1, 500)
if not permits then return redis.error_reply("BADARG permits: want 1..500") end

-- Redis 7.2 prints round scores with an exponent, and gopher-lua reads an exponent only behind a point.
-- Up to 2^53 - 1 a Lua number is exact.
local function time_of_score(score)
  local time = tonumber(score) or tonumber((score:gsub("e", ".e")))
  if time and time >= 0 and time <= 9007199254740991 and time % 1 == 0 then return time end
end

local score = redis.pcall("ZSCORE", log, id)
if not score then return {0} end
if score.err then return score end

-- The members of a grant are numbered without a gap, and share a score.
local function holds(k) return redis.call("ZSCORE", log, id .. "||" .. k) == score end
local held, above = 1, 501
while above - held > 1 do
  local middle = math.floor((held + above) / 2)
  if holds(middle) then held = middle else above = middle end
end
local returned = math.min(permits, held)

-- How far the newest score falls: only if all members that have it are given back.
local newest_falls = 0
local newest = time_of_score(redis.call("ZRANGE", log, "-1", "-1", "WITHSCORES")[2])
local time = time_of_score(score)
if not newest or not time then return redis.error_reply("BADSTATE log: want scores in microseconds") end
if time == newest and redis.call("ZCOUNT", log, score, score) == returned then
  local before = redis.call("ZRANGE", log, -returned - 1, -returned - 1, "WITHSCORES")[2]
  local time_before = before and time_of_score(before)
  if before and not time_before then return redis.error_reply("BADSTATE log: want scores in microseconds") end
  if time_before then newest_falls = newest - time_before end
end

local expires_in = redis.call("PTTL", log)
local members, scored = {}, {}
for k = held, held - returned + 1, -1 do
  local name = k == 1 and id or id .. "||" .. k
  members[#members + 1] = name
  scored[#scored + 1] = score
  scored[#scored + 1] = name
end
redis.call("ZREM", log, unpack(members))
if newest_falls > 0 and expires_in > 0 then
  -- zset_log infers the window of the newest member from the expiry, so both fall together.
  local left = math.max(expires_in - math.floor(newest_falls / 1000), 1)
  -- As text, for Redis 7.2 gives round numbers an exponent.
  local kept = redis.pcall("PEXPIRE", log, string.format("%.0f", left))
  if kept ~= 1 then
    -- Refused, by an ACL say: put back what was removed.
    redis.call("ZADD", log, unpack(scored))
    return kept
  end
end

return {math.floor(returned)} -- Lua 5.4 divides to floats, but a reply must hold integers
