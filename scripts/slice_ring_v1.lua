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
-- COMPLEXITY  O(log N)     TIME, GETRANGE, one more a window; a denial searches the N slices: a guess, then halving
-- REDIS       5.0

local function integer(text, least, most)
  if #text > 16 or not text:find("^%d+$") then return nil end
  local n = text + 0
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
local slices, limits, widest, least_limit = {}, {}, 1, 1000000000
for i = 1, #ARGV / 2 - 1 do
  local slices_i = integer(ARGV[2 * i + 1], 1, 10000)
  if not slices_i then return redis.error_reply("BADARG slices_" .. i .. ": want 1..10000") end
  local limit_i = integer(ARGV[2 * i + 2], 1, 1000000000)
  if not limit_i then return redis.error_reply("BADARG limit_" .. i .. ": want 1..1000000000") end
  slices[i], limits[i] = slices_i, limit_i
  if slices_i > widest then widest = slices_i end
  if limit_i < least_limit then least_limit = limit_i end
end
if permits > least_limit then return redis.error_reply("BADARG permits: want up to every limit") end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local current = (now - now % slice) / slice

-- Where there is no struct library (miniredis) the same bytes are read and made by hand.
local struct = rawget(_G, "struct")
local function number_at(bytes, offset)
  if not struct then
    local a, b, c, d, e, f = string.byte(bytes, offset + 1, offset + 6)
    return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
  end
  return struct.unpack(">I6", bytes, offset + 1)
end

local header = redis.pcall("GETRANGE", ring, "0", "23")
if header.err then return header end
local size, last, total = widest, current, 0
local fresh = true
if header ~= "" or redis.call("EXISTS", ring) == 1 then
  local stored_slice, stored_size, stored_last, stored_total
  if #header == 24 then
    if struct then
      stored_slice, stored_size, stored_last, stored_total = struct.unpack(">I6I6I6I6", header)
    else
      stored_slice, stored_size = number_at(header, 0), number_at(header, 6)
      stored_last, stored_total = number_at(header, 12), number_at(header, 18)
    end
  end
  if stored_slice ~= slice then
    return redis.error_reply("BADSTATE ring: want the slice it was written with")
  end
  if stored_size < 1 or stored_size > 10000 then
    return redis.error_reply("BADSTATE ring: want 1..10000 slices")
  end
  -- Fresh again when every slice has left the ring, or the last was counted by a clock that was
  -- ahead by more than the widest window, of the ring or the call, and 60 s.
  local ahead = math.max(stored_size, widest) * slice + 60000000
  if current - stored_last < stored_size and stored_last * slice <= now + ahead then
    fresh = false
    size, last, total = stored_size, stored_last, stored_total
    -- While the clock is behind, permits count in the last slice.
    if current < last then current = last end
  end
end

-- Totals wrap at 2^48: only their differences count, and 10000 slices of 10^9 stay below it.
local wrap = 281474976710656

local wanted = permits
if permits == 0 then wanted = 1 end
local counts, moves, remaining = {}, 0, limits[1]
local page, page_index = "", size
for i = 1, #limits do
  local start, limit = current - slices[i] + 1, limits[i]
  -- Before the ring's oldest slice nothing is known to have been granted.
  local oldest, count = math.max(start, last - size + 1)
  -- The later a window starts, the less it holds: from full on there is no room, from free on there is.
  -- Tried are the oldest slice, where the count is; the last, as what is full was often filled at once, and
  -- it is read along where it lies beside the oldest; where there would be room had the permits come
  -- evenly; then halves. What else is read along is likely to be tried next.
  local full, free, guessed = oldest - 1, last + 1
  local behind, ahead = 1, math.ceil(slices[i] / limit)
  if ahead > 40 then ahead = 0 end
  while not fresh and free - full > 1 do
    local first
    if not count then
      first = oldest
    elseif free > last and (guessed or oldest == last - size + 1) then
      first = last
    else
      first = math.floor((full + free) / 2)
      if not guessed then
        guessed = true
        first = math.min(first, full + math.ceil((free - full) * (count + wanted - limit) / count))
      end
    end
    local index = first % size
    local offset = 6 * (index - page_index)
    if index < page_index or offset >= #page then
      if guessed and first - full <= 120 then behind = first - full end
      page_index = math.max(index - behind, 0)
      offset = 6 * (index - page_index)
      page = redis.call("GETRANGE", ring, 24 + 6 * page_index, 29 + 6 * (index + ahead))
    end
    if offset + 6 > #page then return redis.error_reply("BADSTATE ring: want a total for each slice") end
    local held = (total - number_at(page, offset)) % wrap
    if held > limit - wanted then full = first else free = first end
    count = count or held
  end
  counts[i] = count or 0
  remaining = math.min(remaining, limit - counts[i])
  if counts[i] > limit - wanted then moves = math.max(moves, free - start) end
end

local granted = 0
if permits > 0 and moves == 0 then
  granted = permits
  local function six_bytes(n)
    local bytes = ""
    for _ = 1, 6 do
      bytes = string.char(n % 256) .. bytes
      n = math.floor(n / 256)
    end
    return bytes
  end
  local totals
  if fresh then
    totals = string.rep(six_bytes(0), widest)
  elseif widest > size then
    -- Lengthened at the old end: laid out oldest first, and turned to where the slices now belong.
    totals = redis.call("GETRANGE", ring, "24", 23 + 6 * size)
    if #totals ~= 6 * size then return redis.error_reply("BADSTATE ring: want a total for each slice") end
    local from = 6 * ((last + 1) % size)
    local oldest = string.sub(totals, from + 1, from + 6)
    totals = string.rep(oldest, widest - size) .. string.sub(totals, from + 1) .. string.sub(totals, 1, from)
    local turn = 6 * (widest - (last + 1) % widest)
    totals = string.sub(totals, turn + 1) .. string.sub(totals, 1, turn)
  end
  if totals then
    size = widest
    redis.call("SET", ring, six_bytes(slice) .. six_bytes(size) .. six_bytes(last) .. six_bytes(total) .. totals)
  end
  if current > last then
    -- The gap: slices that were skipped, and the current one, start from the total so far. Once round
    -- the ring at most, in one piece or, across its end, in two.
    local gap = math.min(current - last, size)
    local index = (current - gap + 1) % size
    local behind = math.min(gap, size - index)
    local before = six_bytes(total)
    redis.call("SETRANGE", ring, 24 + 6 * index, string.rep(before, behind))
    if gap > behind then redis.call("SETRANGE", ring, "24", string.rep(before, gap - behind)) end
  end
  total = (total + granted) % wrap
  local moved = struct and struct.pack(">I6I6", current, total) or six_bytes(current) .. six_bytes(total)
  redis.call("SETRANGE", ring, "12", moved)
  if totals or current > last then
    redis.call("PEXPIREAT", ring, math.ceil((current + size) * slice / 1000))
  end
  last, remaining = current, remaining - granted
  for i = 1, #counts do counts[i] = counts[i] + granted end
end

local wait, reset_after = 0, 0
if moves > 0 then wait = (current + moves) * slice - now end
if not fresh or granted > 0 then reset_after = math.max((last + widest) * slice - now, 0) end
return {granted, math.max(remaining, 0), wait, reset_after, now, unpack(counts)}
