-- gcra v1
--
-- The generic cell rate algorithm: the continuously refilled token bucket, a smooth
-- rate with a burst. Permits come back one by one, each window / limit after the last;
-- up to burst may be taken at once. Any interval of length d holds at most
-- burst + d * limit / window granted permits, to within a microsecond. The emission interval
-- window / limit is an exact fraction and never rounded, so the rate does not drift. A denied
-- call writes nothing.
--
-- KEYS[1]     bucket       <prefix>:<limiter>:{<subject>}:gcra1
--
-- ARGV[1]     limit        int   1..10000000             permits earned in a window
-- ARGV[2]     window       us    1000..31622400000000    length of the window
-- ARGV[3]     burst        int   1..10000000             most permits at once, burst * window / limit up to 2^52 us
-- ARGV[4]     permits      int   0..10000000             wanted now, up to burst; 0 only looks
-- ARGV[5]     max_wait     us    0..60000000             books up to this far ahead
--
-- REPLY[1]    granted      int   0..10000000             permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..10000000             permits that could be granted now
-- REPLY[3]    wait         us    0..                     granted: act after this; denied: they come free then
-- REPLY[4]    reset_after  us    0..                     until the bucket is full
-- REPLY[5]    now          time  0..                     the server's clock at the decision
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    bucket holds something other than a string
-- ERROR       BADSTATE     bucket holds a string that this script did not write
--
-- STATE       gcra/1       struct.pack(">I8I4I4I8", tat, numerator, limit, since): the theoretical
--                          arrival time is tat + numerator / limit us. Void to a clock that is before
--                          since: a window and 60 s before it was written. Expires when tat has passed
-- COMPLEXITY  O(1)         TIME, one GET, at most one SET
-- REDIS       5.0

local function integer(text, least, most)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < least or n > most then return nil end
  return n
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 5 then return redis.error_reply("BADARG ARGV: want 5") end
local bucket = KEYS[1]
local limit = integer(ARGV[1], 1, 10000000)
if not limit then return redis.error_reply("BADARG limit: want 1..10000000") end
local window = integer(ARGV[2], 1000, 31622400000000)
if not window then return redis.error_reply("BADARG window: want 1000..31622400000000") end
local burst = integer(ARGV[3], 1, 10000000)
if not burst then return redis.error_reply("BADARG burst: want 1..10000000") end
local permits = integer(ARGV[4], 0, 10000000)
if not permits then return redis.error_reply("BADARG permits: want 0..10000000") end
local max_wait = integer(ARGV[5], 0, 60000000)
if not max_wait then return redis.error_reply("BADARG max_wait: want 0..60000000") end

-- Every length of time below is a pair: whole microseconds, and a numerator over limit.
local interval_part = window % limit
local interval = (window - interval_part) / limit

-- So many times a length. The products stay exact, for neither k nor part is above 10^7. It takes all
-- that it needs as arguments: variables that a function captures cost each call more than the products.
local function times(k, whole, part, limit)
  local numerator = k * part % limit
  return k * whole + (k * part - numerator) / limit, numerator
end

local depth, depth_part = window, 0 -- burst intervals
if burst ~= limit then depth, depth_part = times(burst, interval, interval_part, limit) end
if depth > 4503599627370496 or depth == 4503599627370496 and depth_part > 0 then
  return redis.error_reply("BADARG burst: want burst * window / limit up to 2^52")
end
if permits > burst then return redis.error_reply("BADARG permits: want up to burst") end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

-- Where there is no struct library (miniredis) the same bytes are read and made by hand.
local struct = rawget(_G, "struct")

local stored = redis.pcall("GET", bucket)
local ahead, part = 0, 0 -- of the theoretical arrival time; a full bucket has none
if stored then
  if stored.err then return stored end
  local tat, numerator, divisor, since = 0, 0, 0, 0
  if #stored == 24 then
    if struct then
      tat, numerator, divisor, since = struct.unpack(">I8I4I4I8", stored)
    else
      for i = 1, 8 do
        tat, since = tat * 256 + string.byte(stored, i), since * 256 + string.byte(stored, i + 16)
      end
      for i = 9, 12 do
        numerator, divisor = numerator * 256 + string.byte(stored, i), divisor * 256 + string.byte(stored, i + 4)
      end
    end
  end
  if numerator >= divisor or divisor > 10000000 or tat > 9007199254740991 then
    return redis.error_reply("BADSTATE bucket: want the 24 bytes of a bucket")
  end
  -- A clock from before since was stepped back too far: void. Nothing ahead: the bucket is full.
  if now >= since and tat >= now then
    ahead, part = tat - now, numerator
    if divisor ~= limit and part > 0 then ahead, part = ahead + 1, 0 end
  end
end

local cost, cost_part = interval, interval_part -- a look asks for one permit
if permits > 1 then cost, cost_part = times(permits, interval, interval_part, limit) end
local after, after_part = ahead + cost, part + cost_part
if after_part >= limit then after, after_part = after + 1, after_part - limit end

local wait = after - depth
if after_part > depth_part then wait = wait + 1 end
-- Lua 5.4 divides to floats, which are no integers in a reply.
if wait > 0 then wait = math.floor(wait) else wait = 0 end

local granted = 0
if permits > 0 and wait <= max_wait then
  granted, ahead, part = permits, after, after_part
end

local reset_after = ahead
if part > 0 then reset_after = reset_after + 1 end
if granted > 0 then
  local since = now - window - 60000000
  if since < 0 then since = 0 end
  local state
  if struct then
    state = struct.pack(">I8I4I4I8", now + ahead, part, limit, since)
  else
    local function big_endian(n, length)
      local bytes = ""
      for _ = 1, length do
        bytes = string.char(n % 256) .. bytes
        n = math.floor(n / 256)
      end
      return bytes
    end
    state = big_endian(now + ahead, 8) .. big_endian(part, 4) .. big_endian(limit, 4) .. big_endian(since, 8)
  end
  redis.call("SET", bucket, state, "PX", (reset_after + -reset_after % 1000) / 1000) -- rounded up
end

local remaining = 0
local left, left_part = depth - ahead, depth_part - part
if left_part < 0 then left, left_part = left - 1, left_part + limit end
if left >= interval then
  -- The floating-point quotient is within 10^-7 of the true one: its nearest integer is
  -- the answer or one above it.
  remaining = math.floor((left + left_part / limit) / window * limit + 0.5)
  local used, used_part = times(remaining, interval, interval_part, limit)
  if used > left or used == left and used_part > left_part then remaining = remaining - 1 end
end

return {granted, remaining, wait, math.floor(reset_after), now}
