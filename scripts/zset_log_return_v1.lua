-- zset_log_return v1
--
-- Gives back permits of a zset_log by the id that they were granted to, if they were certainly not
-- used: it removes members of the id, the highest numbers first. The limit holds for the permits
-- that are not given back. Giving back all permits of an id may be sent again after a lost reply;
-- giving back some may not. An id of which some were given back cannot ask zset_log for as many as
-- before. Later bookings stay where they are.
--
-- KEYS[1]     log          <prefix>:<limiter>:{<subject>}:zl1
--
-- ARGV[1]     id           str   1..128                  the request id that they were granted to, without "|"
-- ARGV[2]     permits      int   1..500                  to give back
--
-- REPLY[1]    returned     int   0..500                  members removed, also of permits that had left the window
--
-- ERROR       BADARG       an argument is not in its range
-- ERROR       WRONGTYPE    log holds something other than a sorted set
-- ERROR       BADSTATE     log holds a score that is not a time in microseconds
--
-- STATE       zl/1         zset_log's: where the newest member goes, the expiry falls by as much as the
--                          newest score does; where all go, the key is gone
-- COMPLEXITY  O(log N)     ZSCORE, ZRANGE, ZREM of up to permits members
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 2 then return redis.error_reply("BADARG ARGV: want 2") end
local log = KEYS[1]
local id = ARGV[1]
if #id < 1 or #id > 128 or id:find("|") then return redis.error_reply("BADARG id: want 1 to 128 bytes without |") end
local permits = integer(ARGV[2], 1, 500)
if not permits then return redis.error_reply("BADARG permits: want 1..500") end
-- END

-- PART time_of_score: printed by make generate
-- Gives time_of_score. Redis 7.2 prints large round scores as 1e+15; miniredis, in gopher-lua, reads only 1.e+15.
local function time_of_score(score)
  local max_exact = 9007199254740991 -- 2^53 - 1: up to there a Lua number is exact
  local time = tonumber(score) or tonumber((score:gsub("e", ".e")))
  if time and time >= 0 and time <= max_exact and time % 1 == 0 then return time end
end
-- END

local score = redis.pcall("ZSCORE", log, id) -- pcall, so that WRONGTYPE reaches the caller as it is
if not score then return {0} end
if type(score) == "table" then return score end
local moment = time_of_score(score)

-- The members of a grant are numbered without a gap and share a score: steps that double, then steps that halve look
-- for the last one. Members of the id with another score are left over from an earlier, larger grant.
local function holds(k) return redis.call("ZSCORE", log, id .. "||" .. k) == score end
local held, step = 1, 1
while holds(held + step) do
  held, step = held + step, step * 2
end
while step > 1 do
  step = math.floor(step / 2)
  if holds(held + step) then held = held + step end
end
local returned = math.min(permits, held)

-- If those to be removed are the newest, the one before them is the newest afterwards. If not, this finds one that is
-- not before them.
local rank = -returned - 1
local before = redis.call("ZRANGE", log, rank, rank, "WITHSCORES")[2]
local time_before = before and time_of_score(before)
if not moment or before and not time_before then
  return redis.error_reply("BADSTATE log: want scores in microseconds")
end
local fall = 0 -- of the newest score, in ms
if time_before then fall = math.floor((moment - time_before) / 1000) end

-- zset_log infers the window of the newest member from the expiry, so both fall together. The expiry falls first: if
-- ZREM is then refused, for example by an ACL, the right to put it back is there. Numbers of nine digits or more are
-- passed as text, because Redis 7.2 prints large round ones as 1e+10.
local expires_in -- in ms, where the expiry falls
if fall > 0 then expires_in = redis.call("PTTL", log) end
if expires_in and expires_in < 1 then expires_in = nil end -- an operator made it stay, or it is overdue
if expires_in then redis.call("PEXPIRE", log, string.format("%.0f", math.max(expires_in - fall, 1))) end
local members = {}
for k = held, held - returned + 1, -1 do members[#members + 1] = k == 1 and id or id .. "||" .. k end
local removed = redis.pcall("ZREM", log, unpack(members))
if type(removed) == "table" then
  if expires_in then redis.call("PEXPIRE", log, string.format("%.0f", expires_in)) end
  return removed
end

return {removed}
