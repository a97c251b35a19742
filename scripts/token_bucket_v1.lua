-- token_bucket v1
--
-- A log of permits that come back one interval after they were taken, as Redisson's
-- RRateLimiter is; the continuously refilled token bucket is gcra. Any half-open interval of
-- length interval holds at most rate granted permits. The rate lives in Redis, so an operator
-- changes it for every caller at once with token_bucket_set. First come, first served. A
-- denied call writes nothing.
--
-- KEYS[1]     config       <prefix>:<limiter>:{<subject>}:tb1
-- KEYS[2]     all          <prefix>:<limiter>:{<subject>}:tb1:all
-- KEYS[3]     by_client    <prefix>:<limiter>:{<subject>}:tb1:by:<client>
--
-- ARGV[1]     rate         int   1..1000000              permits in any interval, where no config is stored
-- ARGV[2]     interval     us    1000..31622400000000    until a permit comes back, likewise
-- ARGV[3]     scope        int   0..1                    0: all clients together, 1: each by itself, likewise
-- ARGV[4]     permits      int   0..1000000              wanted now, up to the rate in force; 0 only looks
-- ARGV[5]     max_wait     us    0..60000000             books up to this far ahead
--
-- REPLY[1]    granted      int   0..1000000              permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..1000000              permits that could be granted now
-- REPLY[3]    wait         us    0..                     granted: act after this; denied: they come free then
-- REPLY[4]    reset_after  us    0..                     until every permit has come back
-- REPLY[5]    now          time  0..                     the server's clock at the decision
-- REPLY[6]    rate         int   1..1000000              the rate in force
-- REPLY[7]    interval     us    1000..31622400000000    the interval in force
--
-- ERROR       BADARG       an argument is not an integer in its range, or permits are above the rate
-- ERROR       WRONGTYPE    config holds something other than a hash, or all or by_client than a sorted set
-- ERROR       BADSTATE     config holds no rate, interval and scope in their ranges, or the permits hold
--                          an entry that this script did not write
--
-- STATE       tb/1         config: a hash of rate, interval and scope, set by the first grant where there
--                          is none. all, by_client: a sorted set with an entry a grant, score the moment
--                          it was granted for, member struct.pack(">I8I4", permits granted before it, its
--                          permits): in use is the end of the last less the start of the first live one.
--                          All expire when the last permit has come back, a config set by
--                          token_bucket_set never; set lazyfree-lazy-expire from 10000 entries on
-- COMPLEXITY  O(log N)     TIME, HMGET, ZRANGE; a grant removes up to 100 expired entries
-- REDIS       5.0

local function integer(text, least, most)
  if #text > 16 or not string.find(text, "^%d+$") then return nil end
  local n = text + 0
  if n < least or n > most then return nil end
  return n
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
local expired = now - interval -- permits granted for up to this moment have come back

-- Where there is no struct library (miniredis) the same bytes are read and made by hand.
local struct = rawget(_G, "struct")

-- An entry in a reply of ZRANGE WITHSCORES: its moment, and the permits granted before and after it;
-- nil where there is none. Redis 7.2 prints a round score with an exponent; gopher-lua reads one
-- only behind a point.
local unreadable
local function entry(reply)
  local member, score = reply[1], reply[2]
  if not member then return nil end
  local at = tonumber(score) or tonumber((string.gsub(score, "e", ".e")))
  if at and at >= 0 and at <= 9007199254740991 and at % 1 == 0 and #member == 12 then
    local before, count = 0, 0
    if struct then
      before, count = struct.unpack(">I8I4", member)
    else
      for i = 1, 8 do before = before * 256 + string.byte(member, i) end
      for i = 9, 12 do count = count * 256 + string.byte(member, i) end
    end
    if count > 0 and before + count <= 9007199254740991 then return at, before, before + count end
  end
  unreadable = true
end

-- The newest tells when none counts: all have come back, or a clock was ahead by more than an
-- interval and 60 s (and a booking reaches 60 s further).
local tail = redis.pcall("ZRANGE", log, "-1", "-1", "WITHSCORES")
if tail.err then return tail end
local newest, newest_before, total = entry(tail)
if newest and newest > now + interval + 120000000 then
  -- It may have been granted under a longer interval, which its TTL tells.
  local granted_under = now + redis.call("PTTL", log) * 1000 - newest
  if newest > now + granted_under + 120000000 then newest = nil end
elseif newest and newest <= expired then
  newest = nil
end

local wanted = math.max(permits, 1)
local due, gone, live = now, 0, 0
if newest then
  due = math.max(now, newest)
  local oldest, before, after = entry(redis.call("ZRANGE", log, "0", "0", "WITHSCORES"))
  if oldest and oldest <= expired then
    gone = redis.call("ZCOUNT", log, "-inf", expired)
    oldest, before, after = entry(redis.call("ZRANGE", log, gone, gone, "WITHSCORES"))
  end
  if not oldest or before > newest_before or after > total then
    unreadable = true
  else
    live = total - before
    if live + wanted > rate then
      -- The permit that must come back before there is room for the last of those wanted. Every entry
      -- has at least one, so its entry stands at most so many ranks behind the oldest.
      local blocker = total + wanted - rate
      local low, high = gone, gone
      if after < blocker then low, high = gone + 1, gone + blocker - after end
      while low < high do
        local middle = math.floor((low + high) / 2)
        local at, _, till = entry(redis.call("ZRANGE", log, middle, middle, "WITHSCORES"))
        if at and till < blocker then low = middle + 1 else high = middle end
      end
      if low > gone then oldest, before, after = entry(redis.call("ZRANGE", log, low, low, "WITHSCORES")) end
      if not oldest or after < blocker or after > total then
        unreadable = true
      else
        due = math.max(due, oldest + interval)
      end
    end
  end
end
if unreadable then
  return redis.error_reply("BADSTATE permits: want moments and packed running totals")
end

local granted = 0
if permits > 0 and due - now <= max_wait then
  granted = permits
  if not newest then
    total = 0
    if tail[1] then redis.call("UNLINK", log) end
  elseif gone > 0 then
    redis.call("ZREMRANGEBYRANK", log, "0", math.min(gone, 100) - 1)
  end
  local member
  if struct then
    member = struct.pack(">I8I4", total, granted)
  else
    local bytes, before, count = {}, total, granted
    for i = 12, 1, -1 do
      if i == 8 then count = before end
      bytes[i] = count % 256
      count = (count - bytes[i]) / 256
    end
    member = string.char(unpack(bytes))
  end
  redis.call("ZADD", log, due, member)
  local expires = math.ceil((due + interval) / 1000)
  local expire_at = string.format("%.0f", expires)
  redis.call("PEXPIREAT", log, expire_at)

  -- The config lives as long as the longest-lived permits; one that has no TTL was set to stay.
  local ttl = 0
  if configured then
    ttl = redis.call("PTTL", config)
  else
    redis.call("HSET", config, "rate", rate, "interval", interval, "scope", scope)
  end
  -- A TTL beyond what any step back leaves is from a clock that was far ahead.
  if ttl >= 0 and (math.floor(now / 1000) + ttl <= expires or ttl * 1000 > 2 * interval + 121000000) then
    redis.call("PEXPIREAT", config, expire_at)
  end
  newest, live = due, live + granted
end

if not newest then return {0, rate, 0, 0, now, rate, interval} end
local remaining = 0
if newest <= now then remaining = math.max(rate - live, 0) end
return {granted, remaining, due - now, newest + interval - now, now, rate, interval}
