-- slice_ring v1
--
-- The time-slice ring: permits counted by slice of time, and up to 8 windows over one ring,
-- all granted or none ("1000 a minute and 10000 an hour"). The current slice and the
-- slices_i - 1 before it never hold more than limit_i, so any interval of
-- (slices_i - 1) * slice holds at most limit_i: ask for one slice more than the window to
-- cover all of it. The cost does not depend on the number of slices. A denied call writes nothing.
--
-- KEYS[1]     ring         <prefix>:<limiter>:{<subject>}:sr1:<slice>
--
-- GROUP[i]    window       1..8
-- ARGV[1]     slice        us    1000..86400000000       length of a slice
-- ARGV[2]     permits      int   0..1000000000           wanted now, up to every limit; 0 only looks
-- ARGV[2i+1]  slices_i     int   1..10000                length of the window in slices
-- ARGV[2i+2]  limit_i      int   1..1000000000           permits in the window
--
-- REPLY[1]    granted      int   0..1000000000           permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..1000000000           permits that could be granted now
-- REPLY[3]    wait         us    0..                     until they come free, if no one else asks
-- REPLY[4]    reset_after  us    0..                     until the widest window is empty
-- REPLY[5]    now          time  0..                     the server's clock at the decision
-- REPLY[5+i]  count_i      int   0..                     permits in the window now
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    ring holds something other than a string
-- ERROR       BADSTATE     ring holds a string that this script did not write, or slices of another length
--
-- STATE       sr/1         big-endian integers of 6 bytes: slice, size, last slice (its start / slice),
--                          total granted; then a ring of size totals, at index s % size the total before
--                          slice s. Expires when the last slice has left the ring
-- COMPLEXITY  O(log N)     TIME, two GETRANGE a window; a denial searches the N slices by halving
-- REDIS       5.0

local function integer(text, least, most)
  if #text > 16 or not string.find(text, "^%d+$") then return nil end
  local n = tonumber(text)
  if n < least or n > most then return nil end
  return n
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV < 4 or #ARGV > 18 or #ARGV % 2 == 1 then
  return redis.error_reply("BADARG ARGV: want 2 and 1 to 8 pairs")
end
local ring = KEYS[1]
local slice = integer(ARGV[1], 1000, 86400000000)
if not slice then return redis.error_reply("BADARG slice: want 1000..86400000000") end
local permits = integer(ARGV[2], 0, 1000000000)
if not permits then return redis.error_reply("BADARG permits: want 0..1000000000") end
local windows, widest, least_limit = {}, 0, 1000000000
for i = 1, #ARGV / 2 - 1 do
  local slices_i = integer(ARGV[2 * i + 1], 1, 10000)
  if not slices_i then return redis.error_reply("BADARG slices_" .. i .. ": want 1..10000") end
  local limit_i = integer(ARGV[2 * i + 2], 1, 1000000000)
  if not limit_i then return redis.error_reply("BADARG limit_" .. i .. ": want 1..1000000000") end
  windows[i] = {slices = slices_i, limit = limit_i}
  widest = math.max(widest, slices_i)
  least_limit = math.min(least_limit, limit_i)
end
if permits > least_limit then return redis.error_reply("BADARG permits: want up to every limit") end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local current = math.floor(now / slice)

-- Totals wrap at 2^48: only their differences count, and 10000 slices of 10^9 stay below it.
local wrap = 281474976710656
local header_bytes = 24

local function number_at(bytes, index)
  local a, b, c, d, e, f = string.byte(bytes, 6 * index + 1, 6 * index + 6)
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end

local function six_bytes(n)
  local bytes = {}
  for i = 6, 1, -1 do
    bytes[i] = n % 256
    n = (n - bytes[i]) / 256
  end
  return string.char(unpack(bytes))
end

local header = redis.pcall("GETRANGE", ring, 0, header_bytes - 1)
if type(header) == "table" then return header end
local exists = header ~= "" or redis.call("EXISTS", ring) == 1
local size, last, total = widest, current, 0
local fresh = true
if exists then
  if #header ~= header_bytes or number_at(header, 0) ~= slice then
    return redis.error_reply("BADSTATE ring: want the slice it was written with")
  end
  local stored_size, stored_last = number_at(header, 1), number_at(header, 2)
  if stored_size < 1 or stored_size > 10000 then
    return redis.error_reply("BADSTATE ring: want 1..10000 slices")
  end
  -- Fresh again when every slice has left the ring, or the last was counted by a clock that was
  -- ahead by more than the widest window, of the ring or the call, and 60 s.
  local ahead = math.max(stored_size, widest) * slice + 60000000
  if current - stored_last < stored_size and stored_last * slice <= now + ahead then
    fresh = false
    size, last, total = stored_size, stored_last, number_at(header, 3)
    -- While the clock is behind, permits count in the last slice.
    current = math.max(current, last)
  end
end

local unreadable

-- The total before slice s; before the ring's oldest slice nothing is known to have been granted.
local function total_before(s)
  if fresh or s > last then return total end
  local index = math.max(s, last - size + 1) % size
  local bytes = redis.call("GETRANGE", ring, header_bytes + 6 * index, header_bytes + 6 * index + 5)
  if #bytes ~= 6 then
    unreadable = true
    return total
  end
  return number_at(bytes, 0)
end

-- What the window holds when the ring has moved on by so many slices and nothing was added.
local function count_after(window, moved)
  return (total - total_before(current + moved - window.slices + 1)) % wrap
end

local wanted = math.max(permits, 1)
local counts, moves = {}, 0

-- The moves until the window has room, found by doubling steps and halving back: counts fall
-- with every move, and are 0 once the last slice has left.
local function moves_until_room(window)
  local room = window.limit - wanted
  local low, step = 0, 1
  while count_after(window, low + step) > room do
    low, step = low + step, step * 2
  end
  while step > 1 do
    step = step / 2
    if count_after(window, low + step) > room then low = low + step end
  end
  return low + 1
end

for i, window in ipairs(windows) do
  counts[i] = count_after(window, 0)
  if counts[i] + wanted > window.limit then
    moves = math.max(moves, moves_until_room(window))
  end
end
if unreadable then return redis.error_reply("BADSTATE ring: want a total for each slice") end

-- The ring lengthened at its old end: laid out oldest first, and turned to where the slices now belong.
local function lengthened(totals)
  local start = 6 * ((last + 1) % size)
  local oldest = string.sub(totals, start + 1, start + 6)
  local line = string.rep(oldest, widest - size) .. string.sub(totals, start + 1) .. string.sub(totals, 1, start)
  local turn = 6 * (widest - (last + 1) % widest)
  return string.sub(line, turn + 1) .. string.sub(line, 1, turn)
end

-- The gap: slices that were skipped, and the current one, start from the total so far. Once round
-- the ring at most, in one piece or, across its end, in two.
local function clear_gap()
  local gap = math.min(current - last, size)
  local index = (current - gap + 1) % size
  local behind = math.min(gap, size - index)
  local totals = six_bytes(total)
  redis.call("SETRANGE", ring, header_bytes + 6 * index, string.rep(totals, behind))
  if gap > behind then redis.call("SETRANGE", ring, header_bytes, string.rep(totals, gap - behind)) end
end

local granted = 0
if permits > 0 and moves == 0 then
  granted = permits
  local totals
  if fresh then
    totals = string.rep(six_bytes(0), widest)
  elseif widest > size then
    totals = redis.call("GETRANGE", ring, header_bytes, header_bytes + 6 * size - 1)
    if #totals ~= 6 * size then return redis.error_reply("BADSTATE ring: want a total for each slice") end
    totals = lengthened(totals)
  end
  if totals then
    size = widest
    redis.call("SET", ring, six_bytes(slice) .. six_bytes(size) .. six_bytes(last) .. six_bytes(total) .. totals)
  end
  if current > last then clear_gap() end
  redis.call("SETRANGE", ring, 12, six_bytes(current) .. six_bytes((total + granted) % wrap))
  if totals or current > last then
    redis.call("PEXPIREAT", ring, math.ceil((current + size) * slice / 1000))
  end
  last = current
end

local wait, remaining = 0, 1000000000
if moves > 0 then wait = (current + moves) * slice - now end
for i, window in ipairs(windows) do
  counts[i] = counts[i] + granted
  remaining = math.min(remaining, math.max(window.limit - counts[i], 0))
end
local reset_after = 0
if not fresh or granted > 0 then reset_after = math.max((last + widest) * slice - now, 0) end
return {granted, remaining, wait, reset_after, now, unpack(counts)}
