-- list_log_many v1
--
-- list_log_v1 for up to 64 keys of one limiter in one call. REPLY goes on with EACH for each key in turn. Each key is
-- decided as by list_log_v1, and twice if it is named twice. K is the number of keys. Only granted above 0 is a
-- grant. One that cannot be decided has granted -1 (BADSTATE) or -2 (WRONGTYPE), and 0 in its other fields; the
-- others are decided. If Redis refuses a command, for example by an ACL, the call ends with that error, and those
-- before it keep their grants. In a cluster all keys must lie in one slot: different subjects mostly do not. Granted
-- -3: not decided and not charged, because the keys before it have read 256 entries. Ask for these keys again.
--
-- GROUP[k]    subject      1..64
-- KEYS[k]     log          <prefix>:<limiter>:{<subject>}:ll1
--
-- ARGV[1]     limit        int   1..1000000              permits in any window
-- ARGV[2]     window       us    1000..31622400000000    length of the window
-- ARGV[3]     permits      int   0..1000                 wanted now, up to limit, K * permits up to 1000; 0 only looks
-- ARGV[4]     max_wait     us    0..60000000             books up to this far ahead
--
-- REPLY[1]    now          time  0..                     the server's clock at the decision
-- EACH[1]     granted      int   -3..1000                permits granted; -1: BADSTATE, -2: WRONGTYPE, -3: ask again
-- EACH[2]     remaining    int   0..1000000              permits that could be granted now
-- EACH[3]     wait         us    0..                     granted: act then; denied: they come free then; look: for 1
-- EACH[4]     reset_after  us    0..                     until the log is empty
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    granted -2: log holds something other than a list
-- ERROR       BADSTATE     granted -1: log holds an entry that is not a time in microseconds
--
-- STATE       ll/1         as list_log_v1
-- COMPLEXITY  O(K log N)   one TIME, then as list_log_v1 for each of K subjects
-- REDIS       5.0

-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS < 1 or #KEYS > 64 then return redis.error_reply("BADARG KEYS: want 1 to 64") end
if #ARGV ~= 4 then return redis.error_reply("BADARG ARGV: want 4") end
local limit = integer(ARGV[1], 1, 1000000)
if not limit then return redis.error_reply("BADARG limit: want 1..1000000") end
local window = integer(ARGV[2], 1000, 31622400000000)
if not window then return redis.error_reply("BADARG window: want 1000..31622400000000") end
local permits = integer(ARGV[3], 0, 1000)
if not permits then return redis.error_reply("BADARG permits: want 0..1000") end
local max_wait = integer(ARGV[4], 0, 60000000)
if not max_wait then return redis.error_reply("BADARG max_wait: want 0..60000000") end

if permits > limit then return redis.error_reply("BADARG permits: want up to limit") end

if #KEYS * permits > 1000 then
  return redis.error_reply("BADARG permits: want keys * permits up to 1000")
end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local window_start = now - window -- permits granted for this time or an earlier one have left the window

-- Arguments of commands: Redis prints numbers slowly, and 7.2 prints large round ones as 1e+15. So constants are
-- text, and times are printed in two halves, seconds and microseconds: "%d" may have 32 bits, .. keeps 14 digits, and
-- "%.0f" takes twice as long. Small numbers, such as an index, are passed as they are.

local calls = 0 -- of time_of, for all keys
local function time_of(entry)
  calls = calls + 1
  local max_exact = 9007199254740991 -- 2^53 - 1: up to there a Lua number is exact
  local time = tonumber(entry)
  if time and time >= 0 and time <= max_exact and time % 1 == 0 then return time end
end

-- Decides about one subject, as list_log_v1 does. Returns the fields of its reply, or an error.
local function decide(log)
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

  if not newest then return 0, limit, 0, 0 end
  local remaining = 0
  if newest <= now and live < limit then remaining = limit - live end
  return granted, remaining, due - now, newest + window - now
end

-- An error of one subject becomes a number, so that the others are decided. Any other, such as a right withheld by an
-- ACL, ends the call: what was granted before it stays.
local reply, n = {now}, 1
for k = 1, #KEYS do
  local granted, remaining, wait, reset_after = -3, 0, 0, 0 -- not decided: the keys before it took too long
  if calls < 256 then granted, remaining, wait, reset_after = decide(KEYS[k]) end
  if not remaining then
    local code = granted.err:match("^%u+")
    if code ~= "BADSTATE" and code ~= "WRONGTYPE" then return granted end
    granted, remaining, wait, reset_after = code == "BADSTATE" and -1 or -2, 0, 0, 0
  end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = granted, remaining, wait, reset_after
  n = n + 4
end
return reply
