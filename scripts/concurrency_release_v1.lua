-- concurrency_release v1
--
-- Frees a slot of a concurrency before its lease ends. It answers 1 only if this call ended a live
-- lease. A lease that has ended, was released or never existed gives 0, and nothing is written. Since
-- ids differ, releasing twice never frees another holder's slot.
--
-- KEYS[1]     holders      <prefix>:<limiter>:{<subject>}:cc1
--
-- ARGV[1]     id           str   1..128                  the holder's own, with which the slot was taken
--
-- REPLY[1]    released     int   0..1                    1: a live lease ended by this call
--
-- ERROR       BADARG       an argument is not in its range
-- ERROR       WRONGTYPE    holders is something other than a sorted set
-- ERROR       BADSTATE     holders has a score that is not a time in microseconds
--
-- STATE       cc/1         concurrency's: the member of the lease is removed, and where it was the last to
--                          end, the key expires with the last of the others
-- COMPLEXITY  O(log N)     TIME, ZSCORE, ZRANGE, ZREM, at most one PEXPIREAT
-- REDIS       5.0

-- PART arguments: printed by make generate
if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 1 then return redis.error_reply("BADARG ARGV: want 1") end
local holders = KEYS[1]
local id = ARGV[1]
if #id < 1 or #id > 128 then return redis.error_reply("BADARG id: want 1 to 128 bytes") end
-- END

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

-- PART time_of_score: printed by make generate
-- Gives time_of_score. Redis 7.2 prints large round scores as 1e+15; miniredis, in gopher-lua, reads only 1.e+15.
local function time_of_score(score)
  local max_exact = 9007199254740991 -- 2^53 - 1: up to there a Lua number is exact
  local time = tonumber(score) or tonumber((score:gsub("e", ".e")))
  if time and time >= 0 and time <= max_exact and time % 1 == 0 then return time end
end
-- END

local score = redis.pcall("ZSCORE", holders, id)
if not score then return {0} end
if type(score) == "table" then return score end
local ends = time_of_score(score)
if not ends then return redis.error_reply("BADSTATE holders: want scores in microseconds") end
if ends <= now then return {0} end

-- The key's expiry, 1 ms after a time as in concurrency, in ms, as text: Redis 7.2 prints large round numbers as 1e+15.
local function milliseconds(time)
  local expires = math.ceil(time / 1000) + 1
  local ms = expires % 1000
  return string.format("%d%03d", (expires - ms) / 1000, ms)
end

-- If this lease is the last to end, the key expires with the one before it. The expiry moves first, because that can
-- be taken back by the same command.
local latest = redis.call("ZRANGE", holders, "-2", "-1", "WITHSCORES")
local moves = latest[3] == id and latest[2] ~= score
if moves then
  local last = time_of_score(latest[2])
  if not last then return redis.error_reply("BADSTATE holders: want scores in microseconds") end
  if last <= now then last = now + 1000 end -- the others have ended: soon, but not while this script runs
  redis.call("PEXPIREAT", holders, milliseconds(last))
end
local removed = redis.pcall("ZREM", holders, id)
if type(removed) == "table" then -- refused, for example by an ACL
  if moves then redis.call("PEXPIREAT", holders, milliseconds(ends)) end
  return removed
end
return {1}
