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
  local n = tonumber(text)
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

-- Where there is no struct library (miniredis) the same bytes are made by hand.
local struct = rawget(_G, "struct")
local function pack(before, count)
  if struct then return struct.pack(">I8I4", before, count) end
  local bytes = {}
  for i = 12, 1, -1 do
    if i == 8 then count = before end
    bytes[i] = count % 256
    count = (count - bytes[i]) / 256
  end
  return string.char(unpack(bytes))
end

local function unpacked(member)
  if struct then return struct.unpack(">I8I4", member) end
  local before, count = 0, 0
  for i = 1, 8 do before = before * 256 + string.byte(member, i) end
  for i = 9, 12 do count = count * 256 + string.byte(member, i) end
  return before, count
end

-- The entry in a reply of ZRANGE WITHSCORES: its moment, and the permits granted before and
-- after it; nil where there is none. Redis 7.2 prints a round score with an exponent; gopher-lua
-- reads one only behind a point.
local unreadable
local function entry(reply)
  local member, score = reply[1], reply[2]
  if not member then return nil end
  local at = tonumber(score) or tonumber((string.gsub(score, "e", ".e")))
  if at and at >= 0 and at <= 9007199254740991 and at % 1 == 0 and #member == 12 then
    local before, count = unpacked(member)
    if count > 0 and before + count <= 9007199254740991 then
      return {at = at, before = before, after = before + count, member = member}
    end
  end
  unreadable = true
end

local tail = redis.pcall("ZRANGE", log, -1, -1, "WITHSCORES")
if tail.err then return tail end
local newest = entry(tail)
-- The newest tells when none counts: all have come back, or a clock was ahead by more than
-- an interval and 60 s (and a booking reaches 60 s further).
if newest and (newest.at <= expired or newest.at > now + interval + 120000000) then newest = nil end
local oldest
if newest then
  oldest = entry(redis.call("ZRANGEBYSCORE", log, expired + 1, "+inf", "WITHSCORES", "LIMIT", 0, 1))
end

-- The entry with the permit that a running count of permits names. Every entry has at least
-- one, so it stands at most so many ranks behind the oldest.
local function entry_of(permit)
  if oldest.after >= permit then return oldest end
  local low = redis.call("ZRANK", log, oldest.member) + 1
  local high = low + permit - oldest.after - 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    local candidate = entry(redis.call("ZRANGE", log, middle, middle, "WITHSCORES"))
    if candidate and candidate.after < permit then low = middle + 1 else high = middle end
  end
  local found = entry(redis.call("ZRANGE", log, low, low, "WITHSCORES"))
  if found and found.after >= permit and found.after <= newest.after then return found end
end

local wanted = math.max(permits, 1)
local due, live = now, 0
if oldest and (oldest.before > newest.before or oldest.after > newest.after) then
  unreadable = true
elseif oldest then
  due, live = math.max(now, newest.at), newest.after - oldest.before
  if live + wanted > rate then
    -- The permit that must come back before there is room for the last of those wanted.
    local blocker = entry_of(newest.after + wanted - rate)
    if blocker then due = math.max(due, blocker.at + interval) else unreadable = true end
  end
end
if unreadable then
  return redis.error_reply("BADSTATE permits: want moments and packed running totals")
end

local granted = 0
if permits > 0 and due - now <= max_wait then
  granted = permits
  local before = 0
  if newest then
    before = newest.after
    local gone = redis.call("ZCOUNT", log, "-inf", expired)
    if gone > 0 then redis.call("ZREMRANGEBYRANK", log, 0, math.min(gone, 100) - 1) end
  elseif tail[1] then
    redis.call("UNLINK", log)
  end
  redis.call("ZADD", log, due, pack(before, granted))
  local expire_at = math.ceil((due + interval) / 1000)
  redis.call("PEXPIREAT", log, expire_at)

  -- The config lives as long as the longest-lived permits; one that has no TTL was set to stay.
  local ttl = 0
  if configured then
    ttl = redis.call("PTTL", config)
  else
    redis.call("HSET", config, "rate", rate, "interval", interval, "scope", scope)
  end
  -- A TTL beyond what any step back leaves is from a clock that was far ahead.
  if ttl >= 0 and (math.floor(now / 1000) + ttl <= expire_at or ttl * 1000 > 2 * interval + 121000000) then
    redis.call("PEXPIREAT", config, expire_at)
  end
  newest, live = {at = due}, live + granted
end

if not newest then return {0, rate, 0, 0, now, rate, interval} end
local remaining = 0
if newest.at <= now then remaining = math.max(rate - live, 0) end
return {granted, remaining, due - now, newest.at + interval - now, now, rate, interval}
