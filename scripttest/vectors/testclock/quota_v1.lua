-- FOR TESTS ONLY: the time is in sluice:test:clock
-- quota v1
--
-- At most limit permits in a period of the calendar: a day, a month in Berlin, from the 15th to the 14th. A period is
-- fixed, so around its end up to twice the limit may be granted at once: where that matters, take a window. The caller
-- names three periods in a row, by its own calendar and clock, and the server's clock chooses among them, so callers
-- whose clocks differ agree. What is reported is charged first, whatever the period holds; a denied call writes
-- nothing else. The limit and the calendar may change from call to call. Nothing is booked ahead.
--
-- KEYS[1]     quota        <prefix>:<limiter>:{<subject>}:qt1
--
-- ARGV[1]     limit        int   1..1000000000000        permits in a period
-- ARGV[2]     permits      int   0..1000000000000        wanted now, up to limit; 0 asks for none
-- ARGV[3]     reported     int   0..1000000000000        charged even if denied; both 0: only looks
-- ARGV[4]     first        time  0..9007199254740991     begin of the first of three periods in a row
-- ARGV[5]     second       time  0..9007199254740991     its end, and begin of the second
-- ARGV[6]     third        time  0..9007199254740991     begin of the third
-- ARGV[7]     after        time  0..9007199254740991     end of the third
--
-- REPLY[1]    granted      int   0..1000000000000        permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..1000000000000        permits that could be granted now
-- REPLY[3]    wait         us    0..                     until they are free (0: one), if nobody else asks
-- REPLY[4]    reset_after  us    0..                     until nothing counts
-- REPLY[5]    now          time  0..                     the server's clock at the decision
-- REPLY[6]    begin        time  0..                     begin of the period that counts; a return names it
-- REPLY[7]    ends         time  0..                     end of that period
-- REPLY[8]    count        int   0..                     permits in it now; charges stop at 10^13
--
-- ERROR       BADARG       an argument is wrong, or the clock, as STATE has it, is in none of the periods
-- ERROR       WRONGTYPE    quota holds something other than a string
-- ERROR       BADSTATE     quota holds a text that is not in the layout qt/1
--
-- STATE       qt/1         "<begin> <count>" in digits. Under another begin than that of the chosen period, an earlier
--                          one is over; a later one that the clock has reached goes on (the calendar has changed). A
--                          clock up to 60 s before the stored begin stands still there; one further before it
--                          finds the count void. Expires when the period ends: the longest charged under its begin
-- COMPLEXITY  O(1)         TIME, one GET, at most one PTTL and one SET
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 7 then return redis.error_reply("BADARG ARGV: want 7") end
local quota = KEYS[1]
local limit = integer(ARGV[1], 1, 1000000000000)
if not limit then return redis.error_reply("BADARG limit: want 1..1000000000000") end
local permits = integer(ARGV[2], 0, 1000000000000)
if not permits then return redis.error_reply("BADARG permits: want 0..1000000000000") end
local reported = integer(ARGV[3], 0, 1000000000000)
if not reported then return redis.error_reply("BADARG reported: want 0..1000000000000") end
local first = integer(ARGV[4], 0, 9007199254740991)
if not first then return redis.error_reply("BADARG first: want 0..9007199254740991") end
local second = integer(ARGV[5], 0, 9007199254740991)
if not second then return redis.error_reply("BADARG second: want 0..9007199254740991") end
local third = integer(ARGV[6], 0, 9007199254740991)
if not third then return redis.error_reply("BADARG third: want 0..9007199254740991") end
local after = integer(ARGV[7], 0, 9007199254740991)
if not after then return redis.error_reply("BADARG after: want 0..9007199254740991") end
-- END

if first >= second or second >= third or third >= after then
  return redis.error_reply("BADARG first: want first < second < third < after")
end
if permits > limit then return redis.error_reply("BADARG permits: want up to limit") end

local clock = redis.call("HMGET", "sluice:test:clock", "s", "us")
local now = clock[1] * 1000000 + clock[2]

local stored = redis.pcall("GET", quota)
if type(stored) == "table" then return stored end
local max_exact, max_count = 9007199254740991, 10000000000000 -- 2^53 - 1: up to there a Lua number is exact
local begin_text, count_text = (stored or "0 0"):match("^(%d+) (%d+)$")
local begin, count = tonumber(begin_text or ""), tonumber(count_text or "")
if not begin or begin > max_exact or count > max_count then
  return redis.error_reply("BADSTATE quota: want a begin and a count")
end

local step_back = 60000000 -- 60 s
local at = begin > now + step_back and now or math.max(begin, now)
if at < first or at >= after then
  return redis.error_reply("BADARG first: want periods around the server's clock")
end
local chosen, ends = third, after
if at < second then
  chosen, ends = first, second
elseif at < third then
  chosen, ends = second, third
end
if begin < chosen or begin > at then begin, begin_text, count = chosen, nil, 0 end

count = math.min(count + reported, max_count)
local wanted, wait, granted = permits == 0 and 1 or permits, 0, permits -- a look is told how long one permit would wait
if count + wanted > limit then wait, granted = ends - now, 0 end
count = count + granted
if reported + granted > 0 then
  -- 1 ms late: the clock of expiry may be behind TIME. Another calendar may have a later end: PTTL is that, if any.
  local ms = math.ceil((ends - now) / 1000) + 1
  if begin_text then ms = math.max(ms, redis.call("PTTL", quota)) end
  begin_text = begin_text or string.format("%.0f", begin) -- .. keeps 14 digits
  redis.call("SET", quota, begin_text .. " " .. count, "PX", 1000000000000 + string.format("%.0f", ms))
end
return {granted, math.max(limit - count, 0), wait, count > 0 and ends - now or 0, now, begin, ends, count}
