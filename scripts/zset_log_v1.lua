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
  if #text > 16 or not string.find(text, "^%d+$") then return nil end
  local n = tonumber(text)
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
if #id > 128 or string.find(id, "|") then
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

local tail = redis.pcall("ZRANGE", log, -1, -1, "WITHSCORES")
if tail.err then return tail end
local newest = moment(tail[2])
-- The newest tells when none counts: all have left the window, or a clock was ahead by
-- more than a window and 60 s (and a booking reaches 60 s further).
if newest and (newest <= expired or newest > now + window + 120000000) then newest = nil end

local wanted = math.max(permits, 1)
local due = now
local score_of_id, booked -- when the permits of this id were granted for, if they are live
if newest then
  -- The permit that must leave before there is room for the last of those wanted.
  local rank = wanted - limit - 1
  local blocker = moment(redis.call("ZRANGE", log, rank, rank, "WITHSCORES")[2])
  due = math.max(now, newest, blocker and blocker + window or now)
  if permits > 0 and id ~= "" then
    score_of_id = redis.call("ZSCORE", log, id)
    booked = moment(score_of_id)
  end
  if booked and booked <= expired then booked = nil end
end

local function member_of_id(k)
  if k == 1 then return id end
  return id .. "||" .. k
end

local granted = 0
if booked then
  -- The members of one call share a score; others may be left of an earlier call with this id.
  local last = redis.call("ZSCORE", log, member_of_id(permits))
  local beyond = redis.call("ZSCORE", log, member_of_id(permits + 1))
  if last ~= score_of_id or beyond == score_of_id then
    return redis.error_reply("BADARG id: want the permits it was granted before")
  end
  granted, due = permits, math.max(booked, now)
elseif due - now <= max_wait then
  granted = permits
end

local live = 0
if newest and granted == 0 and due > now and (wanted == 1 or newest > now) then
  live = limit -- why permits are denied: the log is full, or booked ahead
elseif newest then
  live = redis.call("ZCOUNT", log, expired + 1, "+inf")
end

-- Whether Redis sorts a member before the bound, byte by byte: < would go by the server's locale.
local function sorts_before(member, bound)
  for i = 1, #bound do
    local a, b = string.byte(member, i) or 0, string.byte(bound, i)
    if a ~= b then return a < b end
  end
  return false
end

-- The last k in use at the moment of the newest members. k carries its number of digits in front, so
-- that names sort by k and stand together; what sorts behind them are callers' ids, passed by
-- doubling steps and halving back.
local function last_k(score)
  local bound = score .. "|:"
  local function member_at(rank)
    local reply = redis.call("ZRANGE", log, -1 - rank, -1 - rank, "WITHSCORES")
    return reply[2] == tail[2] and reply[1] or ""
  end
  local behind, step = 0, 1
  while not sorts_before(member_at(behind + step - 1), bound) do
    behind, step = behind + step, step * 2
  end
  while step > 1 do
    step = step / 2
    if not sorts_before(member_at(behind + step - 1), bound) then behind = behind + step end
  end
  local member = member_at(behind)
  if string.sub(member, 1, #score + 1) ~= score .. "|" then return 0 end
  local length, k = string.match(member, "|(%d)(%d+)$")
  if k and #k == tonumber(length) then return tonumber(k) end
  unreadable = true -- neither an id nor a name of the script's: what is to follow it?
end

local score, k
if granted > 0 and not booked then
  score, k = string.format("%.0f", due), 0
  if id == "" and newest == due then k = last_k(score) end
end
if unreadable then return redis.error_reply("BADSTATE log: want scores in microseconds") end

if granted > 0 and not booked then
  if not newest then
    if tail[1] then redis.call("UNLINK", log) end
  else
    -- More than is added, so that expired members never pile up, and no more than that.
    local left = redis.call("ZCARD", log) - live
    if left > 0 then redis.call("ZREMRANGEBYRANK", log, 0, math.min(left, granted + 100) - 1) end
  end
  local members = {}
  for i = 1, granted do
    local digits = string.format("%.0f", k + i)
    members[2 * i - 1] = score
    members[2 * i] = id == "" and score .. "|" .. #digits .. digits or member_of_id(i)
  end
  redis.call("ZADD", log, unpack(members))
  redis.call("PEXPIREAT", log, math.ceil((due + window) / 1000))
  live, newest = live + granted, due
end

if not newest then return {0, limit, 0, 0, now} end
local remaining = 0
if newest <= now then remaining = math.max(limit - live, 0) end
return {granted, remaining, due - now, newest + window - now, now}
