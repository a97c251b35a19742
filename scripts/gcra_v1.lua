-- gcra v1
--
-- The generic cell rate algorithm: the continuously refilled token bucket, a smooth rate with a burst.
-- Permits come back one by one, each window / limit after the last; up to burst may be taken at once.
-- Any interval of length d holds at most burst + d * limit / window granted permits, to within a
-- microsecond. The emission interval window / limit is an exact fraction and never rounded, so the rate
-- does not drift. First come, first served: nobody gets a permit before those who have booked ahead,
-- except by a larger burst * window / limit. limit, window and burst may change from call to call: the
-- time until the bucket is full stays, rounded up to a microsecond. A denied call writes nothing.
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
-- REPLY[3]    wait         us    0..                     granted: act then; denied: they come free then; look: for 1
-- REPLY[4]    reset_after  us    0..                     until the bucket is full
-- REPLY[5]    now          time  0..                     the server's clock at the decision
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    bucket holds something other than a string
-- ERROR       BADSTATE     bucket holds a string that is not in the layout gcra/1
--
-- STATE       gcra/1       26 bytes, struct.pack(">I7I3I3I7I6", tat, numerator, limit, written, widest).
--                          tat + numerator / limit is the theoretical arrival time: when the bucket is full
--                          again. written is the clock at the last grant. A grant has drained when the
--                          arrival time that it set has passed; widest is at least the widest window of the
--                          grants that have not. If narrower grants followed the widest, 39 bytes, with
--                          "I6I7" more: next_widest and drained, the time from which it takes widest's
--                          place. Void if the clock is more than widest and 60 s before written: a clock
--                          that is set may let one burst more through. Expires when tat has passed
-- COMPLEXITY  O(1)         TIME, one GET, at most one SET
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
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
-- END

-- A permit comes back each interval = window / limit. The theoretical arrival time is when all have. k permits move it
-- on by k * interval, from now at the earliest, and may be taken if it then lies up to depth = burst * interval ahead.
-- A length of time x is exact: x microseconds and x_part / limit of one, with x_part below limit.
local interval_part = window % limit
local interval = (window - interval_part) / limit

-- k * (whole + part / limit). k and part are up to 10^7, so k * part is exact; so is k * whole, as more is refused.
local function times(k, whole, part, limit)
  local numerator = k * part % limit
  return k * whole + (k * part - numerator) / limit, numerator
end

local depth, depth_part = window, 0 -- if burst is limit
if burst ~= limit then depth, depth_part = times(burst, interval, interval_part, limit) end
local max_depth = 4503599627370496 -- 2^52: a sum of two such lengths is still exact
if depth > max_depth or depth == max_depth and depth_part > 0 then
  return redis.error_reply("BADARG burst: want burst * window / limit up to 2^52")
end
if permits > burst then return redis.error_reply("BADARG permits: want up to burst") end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

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

-- MANY: gcra_many_v1 repeats what follows for 1..64 keys.

local stored = redis.pcall("GET", bucket)
if type(stored) == "table" then return stored end
-- How far the theoretical arrival time lies ahead of now: 0 for a full bucket.
local ahead, part = 0, 0
-- A bucket is void if the clock is more than widest and step_back before written. Calls may differ in window, so the
-- widest counts: see STATE. Two are kept; with three, the second may count for longer than its grants, which only
-- delays when a bucket is void.
local step_back = 60000000 -- 60 s; written is a clock's time and never a booking's
local widest, next_widest, drained
if stored then
  local max_exact = 9007199254740991 -- 2^53 - 1: up to there a Lua number is exact
  local tat, numerator, stored_limit, written
  if #stored == 26 then
    tat, numerator, stored_limit, written, widest = struct.unpack(">I7I3I3I7I6", stored, 1)
  elseif #stored == 39 then
    tat, numerator, stored_limit, written, widest, next_widest, drained = struct.unpack(">I7I3I3I7I6I6I7", stored, 1)
  end
  if not tat or numerator >= stored_limit or stored_limit > 10000000 or tat > max_exact then
    return redis.error_reply("BADSTATE bucket: want the 26 or 39 bytes of a bucket")
  end
  -- It counts if it is not full again (at tat the numerator is still to come), and if it is not void.
  if tat >= now and now >= written - widest - step_back then
    ahead, part = tat - now, numerator
    if stored_limit ~= limit and part > 0 then ahead, part = ahead + 1, 0 end -- units of another limit: round up
    if next_widest and now >= drained then widest, next_widest = next_widest, nil end
  end
end

local cost, cost_part = interval, interval_part -- a look is told how long one permit would wait
if permits > 1 then cost, cost_part = times(permits, interval, interval_part, limit) end
local after, after_part = ahead + cost, part + cost_part
if after_part >= limit then after, after_part = after + 1, after_part - limit end

local wait = after - depth -- rounded up
if after_part > depth_part then wait = wait + 1 end
-- Under Lua 5.4 a quotient is a float, but a reply must hold integers.
if wait > 0 then wait = math.floor(wait) else wait = 0 end

local granted, before, before_part = 0, ahead, part
if permits > 0 and wait <= max_wait then
  granted, ahead, part = permits, after, after_part
end

local reset_after = ahead -- rounded up
if part > 0 then reset_after = reset_after + 1 end
if granted > 0 then
  if before + before_part == 0 or window >= widest then -- nothing is undrained, or nothing undrained is wider
    widest, next_widest = window, nil
  elseif next_widest then -- one more narrower grant
    next_widest = math.max(next_widest, window)
  else -- the first narrower grant: those before it have drained at the arrival time that they left
    next_widest, drained = window, now + before
    if before_part > 0 then drained = drained + 1 end
  end
  local state
  if next_widest then
    state = struct.pack(">I7I3I3I7I6I6I7", now + ahead, part, limit, now, widest, next_widest, drained)
  else
    state = struct.pack(">I7I3I3I7I6", now + ahead, part, limit, now, widest)
  end
  -- In milliseconds, rounded up, and 1 ms late, for servers whose clock for expiry is behind. As text, because Redis
  -- 7.2 prints large round numbers as 1e+9.
  redis.call("SET", bucket, state, "PX", string.format("%.0f", math.ceil(reset_after / 1000) + 1))
end

local remaining = 0
local left, left_part = depth - ahead, depth_part - part
if left_part < 0 then left, left_part = left - 1, left_part + limit end
if left >= interval then -- else not one permit is free
  -- left / (window / limit), rounded down. The quotient is at most 10^7, so a float is off by less than 10^-7, and
  -- its nearest integer is right or one too many: multiply back and compare.
  remaining = math.floor((left + left_part / limit) / window * limit + 0.5)
  local used, used_part = times(remaining, interval, interval_part, limit)
  if used > left or used == left and used_part > left_part then remaining = remaining - 1 end
end

return {granted, remaining, wait, math.floor(reset_after), now}
