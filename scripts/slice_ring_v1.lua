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
--                          total granted; then a ring of size cells of 7 bytes, that of slice s at index
--                          s % size: the total before the slice * 4096 + the number % 4096 of the first
--                          slice, from this one on, in which permits were granted.
--                          Expires when the last slice has left the ring
-- COMPLEXITY  O(log N)     TIME, GETRANGE, one more a window; a denial searches the N slices: from one with
--                          permits to the next, three times, then halving
-- REDIS       5.0

local function integer(text, least, most)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < least or n > most then return nil end
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

local header = redis.pcall("GETRANGE", ring, "0", "23")
if header.err then return header end
local size, last, total = widest, current, 0
local fresh = true -- no permit counts: the first grant makes a new ring
if header ~= "" or redis.call("EXISTS", ring) == 1 then
  local stored_slice, stored_size, stored_last, stored_total
  if #header == 24 then
    stored_slice, stored_size, stored_last, stored_total = struct.unpack(">I6I6I6I6", header, 1)
  end
  if stored_slice ~= slice then
    return redis.error_reply("BADSTATE ring: want the slice it was written with")
  end
  if stored_size < 1 or stored_size > 10000 then
    return redis.error_reply("BADSTATE ring: want 1..10000 slices")
  end
  -- If the last slice has left the ring, all have. If it lies further ahead than the widest window, of the ring or
  -- of the call, and slack, a wrong clock wrote it: ignore the ring.
  local slack = 60000000 -- for a clock that steps back by more than a window
  local ahead = stored_last * slice - now - slack
  if current - stored_last < stored_size and (ahead <= stored_size * slice or ahead <= widest * slice) then
    fresh = false
    size, last, total = stored_size, stored_last, stored_total
    -- While the clock is behind, permits count in the last slice.
    if current < last then current = last end
  end
end

-- Totals wrap at 2^44: only their differences count, and 10000 slices of 10^9 permits stay below it.
local wrap = 17592186044416

local wanted = permits
if wanted == 0 then wanted = 1 end -- a look asks what one permit would have to wait
local counts, moves, remaining = {}, 0, limits[1]
local page, page_index = "", size -- cells read, from that of index page_index on
for i = 1, #limits do
  local start, most = current - slices[i] + 1, limits[i] - wanted
  -- From which slice on does the window hold most permits at most? The later it starts, the less it holds. If it
  -- starts at full it holds too many, if it starts at free it does not; the search ends when they are neighbours.
  -- Nothing is known to have been granted before the ring's oldest slice.
  local full, free, count, probes = start - 1, last + 1, 0, 0
  if full < last - size then full = last - size end
  while not fresh and free - full > 1 do
    -- The first probe is the oldest slice, which tells the count. The second is the one behind the first slice with
    -- permits, as room for one comes when these have left. Two more follow the links, then it halves.
    local probe = full + 1
    if probes > 3 then probe = math.floor((full + free) / 2) end
    local index = probe % size
    local at = 7 * (index - page_index)
    if index < page_index or at + 7 > #page then
      page_index, at = index, 0
      -- Seven more cells are read along with the first: where most slices hold permits, room is there.
      local from, along = 24 + 7 * index, 6
      if probes == 0 then along = 55 end
      -- As text, as redis.call takes longer to print a number.
      page = redis.call("GETRANGE", ring, string.format("%d", from), string.format("%d", from + along))
      if #page < 7 then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
    end
    -- The total before the slice is in the first 44 bits, its link in the last 12.
    local high, low = struct.unpack(">I6I1", page, at + 1)
    local held = (total - (high - high % 16) / 16) % wrap
    if probes == 0 then count = held end
    probes = probes + 1
    if held > most then
      -- The link says how far on the next permits were granted: up to there it is as full.
      full = probe + (high % 16 * 256 + low - probe) % 4096
      if full >= free then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
    else
      free = probe
    end
  end
  counts[i] = math.floor(count) -- Lua 5.4 may unpack floats, but a reply must hold integers
  if limits[i] - counts[i] < remaining then remaining = limits[i] - counts[i] end
  if count > most then moves = math.max(moves, free - start) end
end

local granted = 0
if permits > 0 and moves == 0 then
  granted = permits
  local cell
  if fresh or current > last then
    local link = current % 4096
    cell = struct.pack(">I6I1", total * 16 + math.floor(link / 256), link % 256)
  end
  total = (total + granted) % wrap
  if fresh or widest > size then
    -- A new or a longer ring is one write, so that none is left without its expiry.
    local cells
    if fresh then
      cells = string.rep(cell, size)
    else
      -- Lengthened at the old end: laid out oldest first, and turned to where the slices now belong.
      cells = redis.call("GETRANGE", ring, "24", string.format("%d", 23 + 7 * size))
      if #cells ~= 7 * size then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
      local from = 7 * ((last + 1) % size)
      local oldest = string.sub(cells, from + 1, from + 7)
      cells = string.rep(oldest, widest - size) .. string.sub(cells, from + 1) .. string.sub(cells, 1, from)
      if current > last then
        cells = string.sub(cells, 7 * (current - last) + 1) .. string.rep(cell, current - last)
      end
      local turn = 7 * (widest - (current + 1) % widest)
      cells = string.sub(cells, turn + 1) .. string.sub(cells, 1, turn)
      size = widest
    end
    local state = struct.pack(">I6I6I6I6", slice, size, current, total) .. cells
    -- As text, for Redis 7.2 gives round numbers an exponent.
    local ttl = math.ceil((current + size) * slice / 1000) - math.floor(now / 1000)
    redis.call("SET", ring, state, "PX", string.format("%.0f", ttl))
  else
    if current > last then
      -- The expiry first: it can be put back, if the cells are refused, by an ACL say. Twice as fast as %.0f, in two
      -- parts, as %d may have 32 bits.
      local expires = math.ceil((current + size) * slice / 1000)
      local ms = expires % 1000
      redis.call("PEXPIREAT", ring, string.format("%d%03d", (expires - ms) / 1000, ms))
      -- The gap: the slices that were skipped, and the current one, start from the total so far. They are written in
      -- one piece or, across the ring's end, in two.
      local gap = current - last
      local index = (last + 1) % size
      local behind = math.min(gap, size - index)
      local written = redis.pcall("SETRANGE", ring, string.format("%d", 24 + 7 * index), string.rep(cell, behind))
      if type(written) == "table" then
        redis.call("PEXPIREAT", ring, string.format("%.0f", math.ceil((last + size) * slice / 1000)))
        return written
      end
      if gap > behind then redis.call("SETRANGE", ring, "24", string.rep(cell, gap - behind)) end
    end
    redis.call("SETRANGE", ring, "12", struct.pack(">I6I6", current, total))
  end
  last, remaining = current, remaining - granted
  for i = 1, #counts do counts[i] = counts[i] + granted end
end

local wait, reset_after = 0, (last + widest) * slice - now
if moves > 0 then wait = (current + moves) * slice - now end -- to the boundary at which enough has left each window
if reset_after < 0 or fresh and granted == 0 then reset_after = 0 end
return {granted, math.max(remaining, 0), math.floor(wait), math.floor(reset_after), now, unpack(counts)}
