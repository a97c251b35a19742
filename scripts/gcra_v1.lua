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
-- STATE       gcra/1       struct.pack(">I7I3I3I7I6", tat, numerator, limit, written, widest): the
--                          theoretical arrival time is tat + numerator / limit us, widest is the widest
--                          window of the grants that have not drained. Where grants under narrower windows
--                          came behind that one's, "I6I7" more: the widest of theirs, and when the grants
--                          before them have drained. Void to a clock that is more than widest and 60 s
--                          before written. Expires when tat has passed
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

-- Lengths of time are exact: each is a pair of whole microseconds and a numerator, in units of 1 / limit us.
local interval_part = window % limit
local interval = (window - interval_part) / limit

-- The length k times as long. The products stay exact, as neither k nor part is above 10^7. It takes limit as an
-- argument, as a captured variable would cost each call more than the products do.
local function times(k, whole, part, limit)
  local numerator = k * part % limit
  return k * whole + (k * part - numerator) / limit, numerator
end

-- How long a full bucket lasts: burst intervals.
local depth, depth_part = window, 0
if burst ~= limit then depth, depth_part = times(burst, interval, interval_part, limit) end
local most = 4503599627370496 -- 2^52: a sum of two such lengths is still exact
if depth > most or depth == most and depth_part > 0 then
  return redis.error_reply("BADARG burst: want burst * window / limit up to 2^52")
end
if permits > burst then return redis.error_reply("BADARG permits: want up to burst") end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

-- Where the library struct is missing (miniredis) the same bytes are made and read by hand.
local struct = rawget(_G, "struct") or {
  pack = function(format, ...)
    local bytes, numbers, i = "", {...}, 0
    for width in format:gmatch("%d") do
      i = i + 1
      local n, field = numbers[i], ""
      for _ = 1, tonumber(width) do
        field = string.char(n % 256) .. field
        n = math.floor(n / 256)
      end
      bytes = bytes .. field
    end
    return bytes
  end,
  unpack = function(format, bytes, at)
    local numbers = {}
    for width in format:gmatch("%d") do
      local n = 0
      for _ = 1, tonumber(width) do
        n = n * 256 + bytes:byte(at)
        at = at + 1
      end
      numbers[#numbers + 1] = n
    end
    return unpack(numbers)
  end,
}

local stored = redis.pcall("GET", bucket)
-- How far the theoretical arrival time lies ahead of now: 0 for a full bucket.
local ahead, part = 0, 0
-- A clock may step back by up to a window and slack. Windows may differ, so the bucket stores the widest one of the
-- grants that have not drained. If narrower ones came after that grant, it also stores the widest of these, which takes
-- over when the grants before it have drained. With more than two windows it may be kept longer than need be.
local slack = 60000000
local widest, next_widest, drained
if stored then
  if stored.err then return stored end
  local tat, numerator, divisor, written
  if #stored == 26 then
    tat, numerator, divisor, written, widest = struct.unpack(">I7I3I3I7I6", stored, 1)
  elseif #stored == 39 then
    tat, numerator, divisor, written, widest, next_widest, drained = struct.unpack(">I7I3I3I7I6I6I7", stored, 1)
  end
  if not tat or numerator >= divisor or divisor > 10000000 or tat > 9007199254740991 then
    return redis.error_reply("BADSTATE bucket: want the 26 or 39 bytes of a bucket")
  end
  -- Otherwise the bucket is full, or it was written by a clock that was further ahead than any step back explains.
  if tat >= now and now >= written - widest - slack then
    ahead, part = tat - now, numerator
    if divisor ~= limit and part > 0 then ahead, part = ahead + 1, 0 end -- another limit: rounded up
    if next_widest and now >= drained then widest, next_widest = next_widest, nil end
  end
end

local cost, cost_part = interval, interval_part -- a look asks for one permit
if permits > 1 then cost, cost_part = times(permits, interval, interval_part, limit) end
local after, after_part = ahead + cost, part + cost_part
if after_part >= limit then after, after_part = after + 1, after_part - limit end

local wait = after - depth
if after_part > depth_part then wait = wait + 1 end
-- Lua 5.4 divides to floats, but a reply must hold integers.
if wait > 0 then wait = math.floor(wait) else wait = 0 end

local granted, before, before_part = 0, ahead, part
if permits > 0 and wait <= max_wait then
  granted, ahead, part = permits, after, after_part
end

local reset_after = ahead
if part > 0 then reset_after = reset_after + 1 end
if granted > 0 then
  if before + before_part == 0 or window >= widest then
    widest, next_widest = window, nil
  elseif next_widest then
    next_widest = math.max(next_widest, window)
  else
    next_widest, drained = window, now + before
    if before_part > 0 then drained = drained + 1 end
  end
  local state
  if next_widest then
    state = struct.pack(">I7I3I3I7I6I6I7", now + ahead, part, limit, now, widest, next_widest, drained)
  else
    state = struct.pack(">I7I3I3I7I6", now + ahead, part, limit, now, widest)
  end
  -- In milliseconds, rounded up. As text, for Redis 7.2 gives round numbers an exponent.
  redis.call("SET", bucket, state, "PX", string.format("%.0f", math.ceil(reset_after / 1000)))
end

local remaining = 0
local left, left_part = depth - ahead, depth_part - part
if left_part < 0 then left, left_part = left - 1, left_part + limit end
if left >= interval then
  -- The quotient is off by less than 10^-7, so its nearest integer is the answer or one above.
  remaining = math.floor((left + left_part / limit) / window * limit + 0.5)
  local used, used_part = times(remaining, interval, interval_part, limit)
  if used > left or used == left and used_part > left_part then remaining = remaining - 1 end
end

return {granted, remaining, wait, math.floor(reset_after), now}
