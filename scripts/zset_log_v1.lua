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
-- COMPLEXITY  O(log N)     TIME, ZCARD, ZCOUNT; a grant removes up to permits + 100 expired members
-- REDIS       5.0

local function integer(text, least, most)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < least or n > most then return nil end
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
local function moment(score)
  local at = tonumber(score) or tonumber((string.gsub(score, "e", ".e")))
  if at and at >= 0 and at <= 9007199254740991 and at % 1 == 0 then return at end
end
local unreadable

local card = redis.pcall("ZCARD", log)
if type(card) == "table" then return card end

local wanted = permits
if wanted == 0 then wanted = 1 end -- a look asks for one
local due = now
local surplus = card + wanted - limit
if surplus > 0 then
  -- So many must have left before there is room for the last of those wanted.
  local rank = surplus == 1 and "0" or surplus - 1
  local frees = moment(redis.call("ZRANGE", log, rank, rank, "WITHSCORES")[2])
  if not frees then
    unreadable = true
  elseif frees + window > due then
    due = frees + window
  end
end

-- Asked again: the moment that the id was granted for, if it is live.
local score, granted_for
if id ~= "" and permits > 0 and card > 0 then
  score = redis.call("ZSCORE", log, id)
  granted_for = score and moment(score)
  if score and not granted_for then
    unreadable = true
  elseif score and granted_for <= expired then
    granted_for = nil
  end
end

-- Texts, for redis.call prints a number to 17 digits, which takes longer than many a command.
local has_room, now_text = due - now <= max_wait
if has_room then now_text = clock[1] .. string.format("%06d", now % 1000000) end

-- The newest is read where the reply needs it, and where it is not before now: booked ahead, or granted in
-- this microsecond.
local tail, newest
if card > 0 and (not has_room or permits == 0 or granted_for
    or redis.call("ZCOUNT", log, now_text, "+inf") > 0) then
  tail = redis.call("ZRANGE", log, "-1", "-1", "WITHSCORES")
  newest = moment(tail[2])
  if not newest then unreadable = true end
end
if unreadable then return redis.error_reply("BADSTATE log: want scores in microseconds") end

-- Scores never decrease, so the newest tells when none counts: all have left the window, or a clock was
-- ahead by more than a window and 60 s (and a booking reaches 60 s further).
local void = newest and newest > now + window + 120000000
if void then
  -- It may have been granted under a longer window, which its TTL tells.
  local granted_under = now + redis.call("PTTL", log) * 1000 - newest
  void = newest > now + granted_under + 120000000
end
local left, live = 0, limit -- where one permit is denied: the log is full, or booked ahead
if void or newest and newest <= expired then
  newest, granted_for, due, left = nil, nil, now, card
elseif newest and newest > due then
  due = newest
end

local granted = 0
if due - now <= max_wait then granted = permits end
if left < card and (granted > 0 or granted_for or due == now or wanted > 1 and newest <= now) then
  local us = expired % 1000000
  left = redis.call("ZCOUNT", log, "-inf", string.format("%d%06d", (expired - us) / 1000000, us))
  live = card - left
end

if granted_for then
  -- The members of one call share a score; others may be left of an earlier call.
  local last = permits == 1 and score or redis.call("ZSCORE", log, id .. "||" .. permits)
  if last ~= score or redis.call("ZSCORE", log, id .. "||" .. permits + 1) == score then
    return redis.error_reply("BADARG id: want the permits it was granted before")
  end
  granted, due = permits, math.max(granted_for, now)
end

local k = 0
if granted > 0 and not granted_for then
  score = now_text
  if due > now or not now_text then score = string.format("%.0f", due) end
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
      local length, digits = string.match(reply[1], "^%d+|(%d)(%d+)$")
      if not digits or #digits ~= tonumber(length) then -- neither an id nor a name of the script's
        return redis.error_reply("BADSTATE log: want scores in microseconds")
      end
      k = tonumber(digits)
    end
  end
end

if granted > 0 and not granted_for then
  if left > 0 and left == card then
    redis.call("UNLINK", log)
  elseif left > 0 then
    -- More than is added, so that expired members never pile up, and no more than that.
    redis.call("ZREMRANGEBYRANK", log, "0", math.min(left, granted + 100) - 1)
  end
  local single, members = id
  if granted == 1 and k == 0 then
    if id == "" then single = score .. "|11" end
    redis.call("ZADD", log, score, single)
  else
    members = {}
    local digits, ceiling, between = 1, 10, "|1" -- a k below the ceiling has so many digits
    for i = 1, granted do
      local name = id
      if id == "" then
        while k + i >= ceiling do
          digits, ceiling = digits + 1, ceiling * 10
          between = "|" .. digits
        end
        name = score .. between .. k + i
      elseif i > 1 then
        name = id .. "||" .. i
      end
      members[2 * i - 1], members[2 * i] = score, name
    end
    redis.call("ZADD", log, unpack(members))
  end
  local expires = math.ceil((due + window) / 1000)
  local ms = expires % 1000
  local kept = redis.pcall("PEXPIREAT", log, string.format("%d%03d", (expires - ms) / 1000, ms))
  if kept ~= 1 then
    -- Refused, by an ACL say: what was added is taken back.
    members = members or {score, single}
    for i = 2, #members, 2 do redis.pcall("ZREM", log, members[i]) end
    return kept
  end
  newest, live = due, card - left + granted
end

if not newest then return {0, limit, 0, 0, now} end
local remaining = 0
if newest <= now and live < limit then remaining = limit - live end
-- Some servers give scores as floats to Lua 5.4, which are no integers in a reply.
return {granted, remaining, math.floor(due - now), math.floor(newest + window - now), now}
