-- token_bucket v1
--
-- A log of permits, each of which comes back one interval after it was taken. It follows Redisson's
-- RRateLimiter; the continuously refilled token bucket is gcra. Any half-open interval of length
-- interval holds at most rate granted permits, unless interval was made longer. The rate lives in
-- Redis, so an operator changes it for every caller at once with token_bucket_set. First come,
-- first served. A denied call writes nothing.
--
-- KEYS[1]     config       <prefix>:<limiter>:{<subject>}:tb1
-- KEYS[2]     all          <prefix>:<limiter>:{<subject>}:tb1:all
-- KEYS[3]     by_client    <prefix>:<limiter>:{<subject>}:tb1:by:<client>
--
-- ARGV[1]     rate         int   1..1000000              permits in any interval, where no config is stored
-- ARGV[2]     interval     us    1000..31622400000000    until a permit comes back, where no config is stored
-- ARGV[3]     scope        int   0..1                    0: all clients together, 1: each alone; if no config is stored
-- ARGV[4]     permits      int   0..1000000              wanted now, up to the rate in force; 0 only looks
-- ARGV[5]     max_wait     us    0..60000000             books up to this far ahead
--
-- REPLY[1]    granted      int   0..1000000              permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..1000000              permits that could be granted now
-- REPLY[3]    wait         us    0..                     granted: act then; denied: they come free then; look: for 1
-- REPLY[4]    reset_after  us    0..                     until every permit has come back
-- REPLY[5]    now          time  0..                     the server's clock at the decision
-- REPLY[6]    rate         int   1..1000000              the rate in force
-- REPLY[7]    interval     us    1000..31622400000000    the interval in force
--
-- ERROR       BADARG       an argument is not an integer in its range, or permits are above the rate
-- ERROR       WRONGTYPE    config holds something other than a hash, or all or by_client than a list
-- ERROR       BADSTATE     config holds no rate, interval and scope in their ranges, or all or by_client an
--                          entry that is not in the layout tb/1
--
-- STATE       tb/1         config: a hash of rate, interval and scope, set by the first grant where there
--                          is none. all, by_client: a list with an entry a grant, oldest first,
--                          struct.pack(">I8I8I4", the time it was granted for, permits granted before it,
--                          its permits). In use are, of the newest entry, before + permits, less before of
--                          the oldest live one. Void if the newest is more than an interval and about 120 s
--                          ahead of the clock (the longer of the call's interval and its own): a clock that
--                          is set may let one rate more through. The lists expire when their last permit
--                          has come back, the config no sooner, one set by token_bucket_set never
-- COMPLEXITY  O(log N)     TIME, HMGET, log N LINDEX, each of which walks the nodes of the list (8 KB
--                          each): 0.14 ms with 10^6 entries, nearly all of them expired. A grant removes up
--                          to 10000 expired entries, or unlinks the list if all have expired
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS ~= 3 then return redis.error_reply("BADARG KEYS: want 3") end
if #ARGV ~= 5 then return redis.error_reply("BADARG ARGV: want 5") end
local config, all, by_client = KEYS[1], KEYS[2], KEYS[3]
local rate = integer(ARGV[1], 1, 1000000)
if not rate then return redis.error_reply("BADARG rate: want 1..1000000") end
local interval = integer(ARGV[2], 1000, 31622400000000)
if not interval then return redis.error_reply("BADARG interval: want 1000..31622400000000") end
local scope = integer(ARGV[3], 0, 1)
if not scope then return redis.error_reply("BADARG scope: want 0..1") end
local permits = integer(ARGV[4], 0, 1000000)
if not permits then return redis.error_reply("BADARG permits: want 0..1000000") end
local max_wait = integer(ARGV[5], 0, 60000000)
if not max_wait then return redis.error_reply("BADARG max_wait: want 0..60000000") end
-- END

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

local stored = redis.pcall("HMGET", config, "rate", "interval", "scope")
if stored.err then return stored end
local configured = stored[1] or redis.call("EXISTS", config) == 1
if configured then
  rate = integer(stored[1] or "", 1, 1000000)
  interval = integer(stored[2] or "", 1000, 31622400000000)
  scope = integer(stored[3] or "", 0, 1)
  if not (rate and interval and scope) then
    return redis.error_reply("BADSTATE config: want rate, interval and scope in their ranges")
  end
end
if permits > rate then return redis.error_reply("BADARG permits: want up to rate") end

local log = scope == 0 and all or by_client
local interval_start = now - interval -- permits granted for this time or an earlier one have come back

-- PART struct: printed by make generate
-- Gives struct. miniredis, a Redis for tests, has no such library: these two do the same for the formats used here,
-- big-endian integers of 1 to 8 bytes. rawget, because Redis raises an error for a global that does not exist.
local struct = rawget(_G, "struct") or {
  pack = function(format, ...)
    local bytes, numbers = "", {...}
    for width in format:gmatch("%d") do
      local n, field = table.remove(numbers, 1), ""
      for _ = 1, tonumber(width) do field, n = string.char(n % 256) .. field, math.floor(n / 256) end
      bytes = bytes .. field
    end
    return bytes
  end,
  unpack = function(format, bytes, at)
    local numbers = {}
    for width in format:gmatch("%d") do
      local n = 0
      for _ = 1, tonumber(width) do n, at = n * 256 + bytes:byte(at), at + 1 end
      numbers[#numbers + 1] = n
    end
    return unpack(numbers) -- the function of Lua
  end,
}
-- END

local unreadable -- an entry is none of ours: an error before anything is written

-- The time of an entry, and the running totals before and after its permits; nil if there is none or it is unreadable.
local function read(entry)
  if not entry then return nil end
  if #entry == 20 then
    local at, before, count = struct.unpack(">I8I8I4", entry, 1)
    local max_exact = 9007199254740991 -- 2^53 - 1: up to there a Lua number is exact
    if at <= max_exact and count > 0 and before + count <= max_exact then return at, before, before + count end
  end
  unreadable = true
end

-- Entries are in order, because due is never before newest: if the newest permits have come back, all have. The newest
-- may lie ahead of now: it was booked (up to 60 s ahead), or the clock has stepped back. A step back of up to the
-- interval and 60 s is believed, and callers wait behind newest. Further ahead, a wrong clock wrote it: the log is
-- void.
local slack = 120000000 -- 60 s for a booking, 60 s for a step back
local tail = redis.pcall("LINDEX", log, "-1")
if type(tail) == "table" then return tail end
local newest, newest_before, total = read(tail)
if newest and newest > now + interval + slack then
  -- The key expires when the interval of the newest grant has passed, which may be longer than this one.
  local newest_window = now + redis.call("PTTL", log) * 1000 - newest
  if newest > now + newest_window + slack then newest = nil end
elseif newest and newest <= interval_start then
  newest = nil
end

local wanted = permits
if wanted == 0 then wanted = 1 end -- a look is told how long one permit would wait
local due, gone, live = now, 0, 0
if newest then
  if newest > due then due = newest end -- behind all bookings
  -- Permits are numbered in the order of their grants: an entry holds the numbers before + 1 to after. The last one
  -- wanted gets total + wanted, so the one that is rate numbers before it, the blocker, must have come back.
  local blocker = total + wanted - rate
  local at, before, after = read(redis.call("LINDEX", log, "0"))
  if at and (at <= interval_start or after < blocker) then
    -- The index of the first entry later than index that is live and whose running total reaches min: steps that
    -- double look for one, then steps that halve look for the first one. The end of the log stops the search too.
    local function find(index, min)
      local function reaches(i)
        local time, _, sum = read(redis.call("LINDEX", log, i))
        return not time or time > interval_start and sum >= min
      end
      local step = 1
      while not reaches(index + step) do
        index, step = index + step, step * 2
      end
      while step > 1 do
        step = math.floor(step / 2)
        if not reaches(index + step) then index = index + step end
      end
      return index + 1
    end
    if at <= interval_start then
      gone = find(0, 0) -- the index of the first live entry is the number of those that are not
      at, before, after = read(redis.call("LINDEX", log, gone))
    end
    if at and after < blocker then
      local time, _, sum = read(redis.call("LINDEX", log, find(gone, blocker)))
      at, after = time, sum -- of the entry that holds the blocker; before stays that of the oldest live entry
    end
  end
  if not at or before > newest_before or after > total then -- totals out of order are none of ours
    unreadable = true
  else
    live = total - before
    -- If before reaches the blocker, it has come back already.
    if before < blocker and at + interval > due then due = at + interval end
  end
end
if unreadable then
  local name = scope == 0 and "all" or "by_client"
  return redis.error_reply("BADSTATE " .. name .. ": want times and packed running totals")
end

local granted = 0
if permits > 0 and due - now <= max_wait then
  granted = permits
  if not newest then total = 0 end -- a new log counts from 0
  local entry = struct.pack(">I8I8I4", due, total, granted)
  local ttl = configured and redis.call("PTTL", config)
  if not newest then
    if tail then redis.call("UNLINK", log) end
  elseif gone > 0 then
    -- Remove more than are added, so that old entries never pile up, but not all, so that a call's cost is bounded.
    redis.call("LTRIM", log, math.min(gone, 10000), "-1")
  end

  -- The config must not expire before the log. It gets 100 ms more, so that not every grant has to prolong it. A config
  -- without a TTL was set to stay. A TTL that is longer than a grant after a step back gives (with 1 s to spare) comes
  -- from a clock that was far ahead: it is set again.
  local expires = math.ceil((due + interval) / 1000) + 1 -- in ms, 1 ms late: a server's clock for expiry may be behind
  local spare = 1000000
  local prolongs = not configured
    or ttl >= 0 and (math.floor(now / 1000) + ttl <= expires or ttl * 1000 > 2 * interval + slack + spare)
  -- Times and intervals are passed as text: .. keeps 14 digits, and Redis 7.2 prints large round numbers as 1e+9.
  if not configured then
    redis.call("HSET", config, "rate", rate, "interval", string.format("%.0f", interval), "scope", scope)
  end
  -- If a command is refused, for example by an ACL, what was written before it is taken back. If that is refused too,
  -- redis.call raises the error.
  if prolongs then
    local prolonged = redis.pcall("PEXPIREAT", config, string.format("%.0f", expires + 100))
    if type(prolonged) == "table" then
      if not configured then redis.call("UNLINK", config) end
      return prolonged
    end
  end
  local pushed = redis.pcall("RPUSH", log, entry)
  if type(pushed) == "table" then
    if not configured then
      redis.call("UNLINK", config)
    elseif prolongs then
      redis.call("PEXPIREAT", config, string.format("%.0f", math.floor(now / 1000) + ttl))
    end
    return pushed
  end
  -- In two halves, seconds and milliseconds, because %d may have 32 bits.
  local ms = expires % 1000
  local kept = redis.pcall("PEXPIREAT", log, string.format("%d%03d", (expires - ms) / 1000, ms))
  if type(kept) == "table" then
    redis.call("LTRIM", log, "0", "-2") -- the config may stay: it has its expiry
    return kept
  end
  newest, live = due, live + granted
end

if not newest then return {0, rate, 0, 0, now, rate, interval} end
local remaining = 0
if newest <= now and live < rate then remaining = rate - live end
-- Under Lua 5.4 unpacked numbers may be floats, but a reply must hold integers.
return {granted, math.floor(remaining), math.floor(due - now), math.floor(newest + interval - now), now, rate, interval}
