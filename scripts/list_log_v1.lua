-- list_log v1
--
-- The sliding-window log in a LIST of integers: any half-open interval of length window holds at most
-- limit granted permits, to the microsecond. The default for exact limits: about 10 bytes a permit.
-- First come, first served: nobody gets a permit before those who have booked ahead. A denied call
-- writes nothing. limit and window may change from call to call. A grant forgets what is older than its
-- window, also if Redis then refuses a command, so callers that alternate between two windows on one
-- key get the longer limit again and again: use two limiters, or slice_ring.
--
-- KEYS[1]     log          <prefix>:<limiter>:{<subject>}:ll1
--
-- ARGV[1]     limit        int   1..1000000              permits in any window
-- ARGV[2]     window       us    1000..31622400000000    length of the window
-- ARGV[3]     permits      int   0..1000                 wanted now, up to limit; 0 only looks
-- ARGV[4]     max_wait     us    0..60000000             books up to this far ahead
--
-- REPLY[1]    granted      int   0..1000                 permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..1000000              permits that could be granted now
-- REPLY[3]    wait         us    0..                     granted: act then; denied: they come free then; look: for 1
-- REPLY[4]    reset_after  us    0..                     until the log is empty
-- REPLY[5]    now          time  0..                     the server's clock at the decision
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    log holds something other than a list
-- ERROR       BADSTATE     log holds an entry that is not a time in microseconds
--
-- STATE       ll/1         one entry a permit, the time it was granted for, oldest first. Void if the
--                          newest is more than a window and about 120 s ahead of the clock (the longer of
--                          the call's window and its own): a clock that is set may let one limit more
--                          through. Expires when the newest has left the window. With bookings it may hold
--                          limit * (1 + max_wait / window, rounded up) entries: set lazyfree-lazy-expire
--                          where that is several million
-- COMPLEXITY  O(log N)     TIME, log N LINDEX, each of which walks the nodes of the list (8 KB each): 0.13
--                          ms with 10^6 entries, nearly all of them expired. A grant removes up to permits
--                          + 100 expired entries, or unlinks the list if all have expired
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 4 then return redis.error_reply("BADARG ARGV: want 4") end
local log = KEYS[1]
local limit = integer(ARGV[1], 1, 1000000)
if not limit then return redis.error_reply("BADARG limit: want 1..1000000") end
local window = integer(ARGV[2], 1000, 31622400000000)
if not window then return redis.error_reply("BADARG window: want 1000..31622400000000") end
local permits = integer(ARGV[3], 0, 1000)
if not permits then return redis.error_reply("BADARG permits: want 0..1000") end
local max_wait = integer(ARGV[4], 0, 60000000)
if not max_wait then return redis.error_reply("BADARG max_wait: want 0..60000000") end
-- END

if permits > limit then return redis.error_reply("BADARG permits: want up to limit") end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local window_start = now - window -- permits granted for this time or an earlier one have left the window

-- Arguments of commands: Redis prints numbers slowly, and 7.2 prints large round ones as 1e+15. So constants are
-- text, and times are printed in two halves, seconds and microseconds: "%d" may have 32 bits, .. keeps 14 digits, and
-- "%.0f" takes twice as long. Small numbers, such as an index, are passed as they are.

local function time_of(entry)
  local max_exact = 9007199254740991 -- 2^53 - 1: up to there a Lua number is exact
  local time = tonumber(entry)
  if time and time >= 0 and time <= max_exact and time % 1 == 0 then return time end
end

-- MANY: list_log_many_v1 repeats what follows for 1..64 keys, keys * permits up to 1000, 256 calls of time_of.

local unreadable -- an entry is no time: an error before anything is written

-- Entries are in order, because due is never before newest: if the newest has left the window, all have. The newest
-- may lie ahead of now: it was booked (up to 60 s ahead), or the clock has stepped back. A step back of up to the
-- window and 60 s is believed, and callers wait behind newest. Further ahead, a wrong clock wrote it: then the log is
-- void.
local slack = 120000000 -- 60 s for a booking, 60 s for a step back
local tail = redis.pcall("LINDEX", log, "-1") -- pcall, so that WRONGTYPE reaches the caller as it is
if type(tail) == "table" then return tail end
local newest = tail and time_of(tail)
if tail and not newest then unreadable = true end
if newest and newest > now + window + slack then
  -- The key expires when the window of the newest grant has passed, which may be longer than this call's.
  local newest_window = now + redis.call("PTTL", log) * 1000 - newest
  if newest > now + newest_window + slack then newest = nil end
elseif newest and newest <= window_start then
  newest = nil
end

local wanted = permits
if wanted == 0 then wanted = 1 end -- a look is told how long one permit would wait
local due = now -- the time that the permits are granted for
local length
if newest then
  if newest > due then due = newest end -- behind all bookings
  length = redis.call("LLEN", log)
  local surplus = length + wanted - limit
  if surplus > 0 then
    -- With the permits wanted the log has surplus entries too many: the surplus-th oldest must have left the window.
    -- If it left long ago, as entries that are not removed yet have, nobody waits for it.
    local blocker = time_of(redis.call("LINDEX", log, surplus == 1 and "0" or surplus - 1))
    if not blocker then
      unreadable = true
    elseif blocker + window > due then
      due = blocker + window
    end
  end
end

local granted = 0
if due - now <= max_wait then granted = permits end

-- live is for remaining. A denial where not even one permit is free needs no count: remaining is 0 without it.
local none_free = granted == 0 and due > now and (wanted == 1 or newest > now)
local gone, live = 0, newest and limit or 0 -- gone: how many entries at the head have left the window
if newest and not none_free then
  local head = time_of(redis.call("LINDEX", log, "0"))
  if not head then
    unreadable = true
  elseif head <= window_start then
    local function has_left(index)
      local entry = redis.call("LINDEX", log, index)
      if not entry then return false end
      local time = time_of(entry)
      if not time then unreadable = true end
      return time and time <= window_start
    end
    -- The entry with the index last has left: steps that double look for one that has not, then steps that halve for
    -- the last one that has.
    local last, step = 0, 1
    while has_left(last + step) do
      last, step = last + step, step * 2
    end
    while step > 1 do
      step = math.floor(step / 2)
      if has_left(last + step) then last = last + step end
    end
    gone = last + 1
  end
  live = length - gone
end
if unreadable then return redis.error_reply("BADSTATE log: want times in microseconds") end

if granted > 0 then
  if tail and not newest then -- no entry counts
    redis.call("UNLINK", log)
  elseif gone > 0 then
    -- Remove more than are added, so that old entries never pile up, but not all, so that a call's cost is bounded.
    redis.call("LTRIM", log, math.min(gone, granted + 100), "-1")
  end
  local entry = clock[1] .. string.format("%06d", now % 1000000)
  if due > now then
    local us = due % 1000000
    entry = string.format("%d%06d", (due - us) / 1000000, us)
  end
  if granted == 1 then
    redis.call("RPUSH", log, entry)
  else
    local entries = {}
    for i = 1, granted do entries[i] = entry end
    redis.call("RPUSH", log, unpack(entries))
  end
  local expires = math.ceil((due + window) / 1000) + 1 -- in ms, 1 ms late: a server's clock for expiry may be behind
  local ms = expires % 1000
  local kept = redis.pcall("PEXPIREAT", log, string.format("%d%03d", (expires - ms) / 1000, ms))
  if type(kept) == "table" then
    -- Refused, for example by an ACL. A log without expiry must not stay: take back what was added. If that is
    -- refused too, redis.call raises the error.
    redis.call("LTRIM", log, "0", -granted - 1)
    return kept
  end
  live, newest = live + granted, due
end

if not newest then return {0, limit, 0, 0, now} end
local remaining = 0
if newest <= now and live < limit then remaining = limit - live end
return {granted, remaining, due - now, newest + window - now, now}
