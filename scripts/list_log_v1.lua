-- list_log v1
--
-- The sliding-window log in a LIST of integers: any half-open interval of length window
-- holds at most limit granted permits, to the microsecond. The default for exact limits:
-- about 10 bytes a permit. First come, first served: nobody is let in before a permit
-- that is booked ahead. A denied call writes nothing.
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
-- REPLY[3]    wait         us    0..                     granted: act after this; denied: they come free then
-- REPLY[4]    reset_after  us    0..                     until nothing is live
-- REPLY[5]    now          time  0..                     the server's clock at the decision
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    log holds something other than a list
-- ERROR       BADSTATE     log holds an entry that is not a moment in microseconds
--
-- STATE       ll/1         one entry a permit, the moment it was granted for, oldest first;
--                          expires when the newest has left the window; set lazyfree-lazy-expire
--                          where it may hold several million
-- COMPLEXITY  O(log N)     TIME, LINDEX; a grant removes up to permits + 10000 expired entries
-- REDIS       5.0

local function integer(text, least, most)
  if #text > 16 or not string.find(text, "^%d+$") then return nil end
  local n = tonumber(text)
  if n < least or n > most then return nil end
  return n
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
if permits > limit then return redis.error_reply("BADARG permits: want up to limit") end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local expired = now - window -- entries up to this moment have left the window

local unreadable
local function moment(text)
  if not text then return nil end
  local at = integer(text, 0, 9007199254740991)
  if not at then unreadable = true end
  return at
end

local tail = redis.pcall("LINDEX", log, -1)
if type(tail) == "table" then return tail end
local newest = moment(tail)
-- Entries never decrease, so the newest tells when none counts: all have left the window, or
-- a clock was ahead by more than a window and 60 s (and a booking reaches 60 s further).
if newest and (newest <= expired or newest > now + window + 120000000) then newest = nil end

local wanted = math.max(permits, 1)
local due = now
if newest then
  -- The permit that must leave before there is room for the last of those wanted.
  local blocker = moment(redis.call("LINDEX", log, wanted - limit - 1))
  due = math.max(now, newest, blocker and blocker + window or now)
end
local granted = 0
if due - now <= max_wait then granted = permits end

local function has_left(index)
  local at = moment(redis.call("LINDEX", log, index))
  return at and at <= expired
end

-- How many entries from one end on satisfy a condition, found by doubling steps and halving back.
local function run_length(holds)
  local count, step = 0, 1
  while holds(count + step - 1) do
    count, step = count + step, step * 2
  end
  while step > 1 do
    step = step / 2
    if holds(count + step - 1) then count = count + step end
  end
  return count
end

local most_removed = granted + 10000 -- more than is added, so that what has left never piles up
local left, live = 0, 0
if newest and granted == 0 and due > now and (wanted == 1 or newest > now) then
  live = limit -- why permits are denied: the log is full, or booked ahead
elseif newest then
  left = run_length(function(index) return index < most_removed and has_left(index) end)
  live = redis.call("LLEN", log) - left
  if left == most_removed and newest <= now then
    live = run_length(function(index)
      if index >= limit then return false end -- nothing remains, however many more there are
      local at = moment(redis.call("LINDEX", log, -1 - index))
      return at and at > expired
    end)
  end
end
if unreadable then return redis.error_reply("BADSTATE log: want moments in microseconds") end

if granted > 0 then
  if tail and not newest then redis.call("UNLINK", log) end
  if left > 0 then redis.call("LTRIM", log, left, -1) end
  local entries, entry = {}, string.format("%.0f", due)
  for i = 1, granted do entries[i] = entry end
  redis.call("RPUSH", log, unpack(entries))
  redis.call("PEXPIREAT", log, math.ceil((due + window) / 1000))
  live, newest = live + granted, due
end

if not newest then return {0, limit, 0, 0, now} end
local remaining = 0
if newest <= now then remaining = math.max(limit - live, 0) end
return {granted, remaining, due - now, newest + window - now, now}
