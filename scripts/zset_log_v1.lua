-- zset_log v1
--
-- The sliding-window log in a ZSET: any half-open interval of length window holds at most
-- limit granted permits, to the microsecond, and ZRANGE shows each with its moment. Takes a
-- request id, so that a retry after a lost reply charges nothing and ZREM gives permits
-- back. First come, first served: nobody is let in before a permit that is booked ahead.
-- A denied call writes nothing.
--
-- KEYS[1]     log          <prefix>:<limiter>:{<subject>}:zl1
--
-- ARGV[1]     limit        int   1..10000                permits in any window; above: list_log
-- ARGV[2]     window       us    1000..31622400000000    length of the window
-- ARGV[3]     permits      int   0..500                  wanted now, up to limit; 0 only looks
-- ARGV[4]     max_wait     us    0..60000000             books up to this far ahead
-- ARGV[5]     id           str   0..128                  the caller's request id, no "|"; empty: the script names
--
-- REPLY[1]    granted      int   0..500                  permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..10000                permits that could be granted now
-- REPLY[3]    wait         us    0..                     granted: act after this; denied: they come free then
-- REPLY[4]    reset_after  us    0..                     until nothing is live
-- REPLY[5]    now          time  0..                     the server's clock at the decision
--
-- ERROR       BADARG       an argument is not in its range, or a live id asks for other permits
-- ERROR       WRONGTYPE    log holds something other than a sorted set
-- ERROR       BADSTATE     log holds a score that is no moment in microseconds, or an unknown name
--
-- STATE       zl/1         one member a permit, its score the moment it was granted for: the id,
--                          then <id>||2, <id>||3, ..; without an id <us>|<k>, k from 1 on behind
--                          its number of digits: 11, 12, .., 19, 210. ZREM of all the members of
--                          a call gives its permits back. Expires when the newest has left the
--                          window; set lazyfree-lazy-expire from 10000 members on
-- COMPLEXITY  O(log N)     TIME, ZRANGE; a grant removes up to permits + 100 expired members
-- REDIS       5.0

local function integer(text, least, most)
  if #text > 16 or not text:find("^%d+$") then return nil end
  local n = text + 0
  if n < least or n > most then return nil end
  return n
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 5 then return redis.error_reply("BADARG ARGV: want 5") end
local log = KEYS[1]
local limit = integer(ARGV[1], 1, 10000)
if not limit then return redis.error_reply("BADARG limit: want 1..10000") end
local window = integer(ARGV[2], 1000, 31622400000000)
if not window then return redis.error_reply("BADARG window: want 1000..31622400000000") end
local permits = integer(ARGV[3], 0, 500)
if not permits then return redis.error_reply("BADARG permits: want 0..500") end
local max_wait = integer(ARGV[4], 0, 60000000)
if not max_wait then return redis.error_reply("BADARG max_wait: want 0..60000000") end
local id = ARGV[5]
if #id > 128 or id ~= "" and string.find(id, "|") then
  return redis.error_reply("BADARG id: want up to 128 bytes without |")
end
if permits > limit then return redis.error_reply("BADARG permits: want up to limit") end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local expired = now - window -- permits granted for up to this moment have left the window

-- Redis 7.2 prints a round score with an exponent; gopher-lua reads one only behind a point.
local unreadable
local function moment(score)
  if not score then return nil end
  local at = tonumber(score) or tonumber((string.gsub(score, "e", ".e")))
  if at and at >= 0 and at <= 9007199254740991 and at % 1 == 0 then return at end
  unreadable = true
end

-- Scores never decrease, so the newest tells when none counts: all have left the window, or a
-- clock was ahead by more than a window and 60 s (and a booking reaches 60 s further).
local tail = redis.pcall("ZRANGE", log, "-1", "-1", "WITHSCORES")
if tail.err then return tail end
local newest = moment(tail[2])
if newest and newest > now + window + 120000000 then
  -- It may have been granted under a longer window, which its TTL tells.
  local granted_under = now + redis.call("PTTL", log) * 1000 - newest
  if newest > now + granted_under + 120000000 then newest = nil end
elseif newest and newest <= expired then
  newest = nil
end

local wanted = permits
if wanted == 0 then wanted = 1 end -- a look asks for one
local due, live, left = now, 0
if newest then
  local card = redis.call("ZCARD", log)
  local booked_ahead = newest > now
  if booked_ahead then due = newest end
  -- So many must have left before there is room for the last of those wanted.
  local surplus = card + wanted - limit
  if surplus > 0 then
    local rank = surplus == 1 and "0" or surplus - 1
    local blocker = moment(redis.call("ZRANGE", log, rank, rank, "WITHSCORES")[2])
    if blocker and blocker + window > due then due = blocker + window end
  end
  live = limit -- why permits are denied: the log is full, or booked ahead
  if due - now <= max_wait or wanted > 1 and not booked_ahead or id ~= "" then
    left = redis.call("ZCOUNT", log, "-inf", expired)
    live = card - left
  end
end

local granted, booked = 0, false
if due - now <= max_wait then granted = permits end
if newest and permits > 0 and id ~= "" then
  local score = redis.call("ZSCORE", log, id)
  local at = moment(score)
  if at and at > expired then
    -- Asked again. The members of one call share a score; others may be left of an earlier call.
    local last = permits == 1 and score or redis.call("ZSCORE", log, id .. "||" .. permits)
    if last ~= score or redis.call("ZSCORE", log, id .. "||" .. permits + 1) == score then
      return redis.error_reply("BADARG id: want the permits it was granted before")
    end
    granted, booked, due = permits, true, math.max(at, now)
  end
end

local score, k = "", 0
if granted > 0 and not booked then
  score = string.format("%.0f", due)
  if id == "" and newest == due then
    -- The last k in use at this moment. k carries its number of digits in front, so that names sort
    -- by k and stand together; what sorts behind them are callers' ids, passed by doubling steps and
    -- halving back. Redis sorts byte by byte, where < would go by the server's locale.
    local bound = score .. "|:"
    local function is_behind(rank)
      local reply = redis.call("ZRANGE", log, -rank - 1, -rank - 1, "WITHSCORES")
      if reply[2] ~= tail[2] then return false end
      for i = 1, #bound do
        local a, b = string.byte(reply[1], i) or 0, string.byte(bound, i)
        if a ~= b then return a > b end
      end
      return true
    end
    local behind, step = 0, 1
    while is_behind(behind + step - 1) do
      behind, step = behind + step, step * 2
    end
    while step > 1 do
      step = step / 2
      if is_behind(behind + step - 1) then behind = behind + step end
    end
    local reply = redis.call("ZRANGE", log, -behind - 1, -behind - 1, "WITHSCORES")
    if reply[2] == tail[2] and string.sub(reply[1], 1, #score + 1) == score .. "|" then
      local length, digits = string.match(reply[1], "|(%d)(%d+)$")
      if digits and #digits == tonumber(length) then
        k = tonumber(digits)
      else
        unreadable = true -- neither an id nor a name of the script's: what is to follow it?
      end
    end
  end
end
if unreadable then return redis.error_reply("BADSTATE log: want scores in microseconds") end

if granted > 0 and not booked then
  if not newest then
    if tail[1] then redis.call("UNLINK", log) end
  elseif left > 0 then
    -- More than is added, so that expired members never pile up, and no more than that.
    redis.call("ZREMRANGEBYRANK", log, "0", math.min(left, granted + 100) - 1)
  end
  local members = {}
  local digits, ceiling, between = 1, 10, "|1" -- a k below the ceiling has so many digits
  for i = 1, granted do
    local name = id
    if id == "" then
      while k + i >= ceiling do
        digits, ceiling = digits + 1, ceiling * 10
        between = "|" .. digits
      end
      name = score .. between .. (k + i == 1 and "1" or k + i)
    elseif i > 1 then
      name = id .. "||" .. i
    end
    members[2 * i - 1], members[2 * i] = score, name
  end
  redis.call("ZADD", log, unpack(members))
  redis.call("PEXPIREAT", log, math.ceil((due + window) / 1000))
  live, newest = live + granted, due
end

if not newest then return {0, limit, 0, 0, now} end
local remaining = 0
if newest <= now and live < limit then remaining = limit - live end
return {granted, remaining, due - now, newest + window - now, now}
