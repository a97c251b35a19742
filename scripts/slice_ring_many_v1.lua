-- slice_ring_many v1
--
-- slice_ring_v1 for up to 64 subjects of one limiter in one call. REPLY goes on with EACH for
-- each key in turn. It is decided as by slice_ring_v1, twice where it is named twice. One that
-- cannot be decided has granted -1 (BADSTATE) or -2 (WRONGTYPE), and the others are decided. If
-- Redis refuses a command, by an ACL for example, the call ends, and keys before this one keep
-- their grants: too much is counted, never too little. Granted -3, after much work: not
-- decided, ask again.
--
-- GROUP[k]    subject      1..64
-- KEYS[k]     ring         <prefix>:<limiter>:{<subject>}:sr1:<slice>
--
-- GROUP[i]    window       1..8
-- ARGV[1]     slice        us    1000..86400000000       length of a slice
-- ARGV[2]     permits      int   0..1000000000           wanted now, up to every limit; 0 only looks
-- ARGV[2i+1]  slices_i     int   1..10000                length of the window in slices
-- ARGV[2i+2]  limit_i      int   1..1000000000           permits in the window
--
-- REPLY[1]    now          time  0..                     the server's clock at the decision
-- EACH[1]     granted      int   -3..1000000000          permits granted; -1: BADSTATE, -2: WRONGTYPE, -3: ask again
-- EACH[2]     remaining    int   0..1000000000           permits that could be granted now
-- EACH[3]     wait         us    0..                     until they come free, if no one else asks
-- EACH[4]     reset_after  us    0..                     until the widest window is empty
-- EACH[4+i]   count_i      int   0..                     permits in the window now
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    granted -2: ring holds something other than a string
-- ERROR       BADSTATE     granted -1: ring holds a string that this script did not write, or slices of another length
--
-- STATE       sr/1         as slice_ring_v1
-- COMPLEXITY  O(K log N)   one TIME, then as slice_ring_v1 for each of K keys
-- REDIS       5.0

-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, least, most)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < least or n > most then return nil end
  return n
end

if #KEYS < 1 or #KEYS > 64 then return redis.error_reply("BADARG KEYS: want 1 to 64") end
if #ARGV < 4 or #ARGV > 18 or #ARGV % 2 == 1 then
  return redis.error_reply("BADARG ARGV: want 2 and 1 to 8 pairs")
end
local slice = integer(ARGV[1], 1000, 86400000000)
if not slice then return redis.error_reply("BADARG slice: want 1000..86400000000") end
local permits = integer(ARGV[2], 0, 1000000000)
if not permits then return redis.error_reply("BADARG permits: want 0..1000000000") end
local slices, limits = {}, {}
for i = 1, (#ARGV - 2) / 2 do
  local slices_i = integer(ARGV[2 * i + 1], 1, 10000)
  if not slices_i then return redis.error_reply("BADARG slices_" .. i .. ": want 1..10000") end
  local limit_i = integer(ARGV[2 * i + 2], 1, 1000000000)
  if not limit_i then return redis.error_reply("BADARG limit_" .. i .. ": want 1..1000000000") end
  slices[i], limits[i] = slices_i, limit_i
end

-- The ring must be as long as the widest window, and permits must fit into every limit.
local widest = 1
for i = 1, #limits do
  if slices[i] > widest then widest = slices[i] end
  if permits > limits[i] then return redis.error_reply("BADARG permits: want up to every limit") end
end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

-- miniredis, a Redis for tests, has no library struct: these two do the same for the formats used here, big-endian
-- integers of 1 to 8 bytes. rawget, because Redis raises an error for a global that does not exist.
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
    return unpack(numbers) -- the function of Lua
  end,
}

local reply, n = {now}, 1
local work = 0 -- for all keys
-- Adds to the work, unless that is too much for one call: then the key is not decided. The first key always is.
local function exceeds(more)
  if n ~= 1 and work + more > 10000 then return true end
  work = work + more
end

-- Decides about one key, as slice_ring_v1 does. Returns the fields of its reply, or an error.
local function decide(ring)
  local header = redis.pcall("GETRANGE", ring, "0", "23") -- the ring itself may have 70 KB
  if header.err then return header end
  local current = (now - now % slice) / slice -- the number of the slice that now is in
  local size, last, total = widest, current, 0
  local fresh = true -- nothing stored counts: the first grant makes a new ring
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
    -- If the last slice has left the ring, all have. It may lie ahead of now if the clock has stepped back. A step back
    -- of up to the widest window, of the ring or of the call, and slack is believed. Further ahead, a wrong clock wrote
    -- it.
    local slack = 60000000 -- 60 s
    local ahead = stored_last * slice - now - slack
    if current - stored_last < stored_size and (ahead <= stored_size * slice or ahead <= widest * slice) then
      fresh = false
      size, last, total = stored_size, stored_last, stored_total
      -- The clock has stepped back: permits count in the last slice until it has caught up.
      if current < last then current = last end
    end
  end

  -- Totals wrap at 2^44: only their differences count, and 10000 slices of 10^9 permits stay below it.
  local wrap = 17592186044416

  local wanted = permits
  if wanted == 0 then wanted = 1 end -- a look is told how long one permit would wait
  local counts, wait_slices, remaining = {}, 0, limits[1]
  local page, page_index = "", size -- the cells that were read last, from index page_index on; none yet
  for i = 1, #limits do
    -- The call fits if the window, which begins with slice start, holds no more than room. If it holds more, the
    -- caller waits until the window begins with free, the first slice from which on no more than room is held. The
    -- later the slice, the less is held from it on: from full it is too much, from free it is not, and the search moves
    -- the two towards each other until they are neighbours. Slices that have left the ring hold nothing.
    local start, room = current - slices[i] + 1, limits[i] - wanted
    local full, free, count, probes = start - 1, last + 1, 0, 0
    if full < last - size then full = last - size end
    while not fresh and free - full > 1 do
      -- Choose a slice between them. The first is start: what is held from it on is the count, and mostly it fits.
      -- The next three follow links, over slices without permits. Then the rest is halved.
      local probe = full + 1
      if probes > 3 then probe = math.floor((full + free) / 2) end

      -- Read its cell, with the seven behind it: where most slices hold permits, the next probes are among them.
      local index = probe % size
      local at = 7 * (index - page_index)
      if index < page_index or at + 7 > #page then
        if exceeds(32) then
          return -3, 0, 0, 0, {}
        end
        page_index, at = index, 0
        local from = 24 + 7 * index
        -- As text, because redis.call takes longer to print a number.
        page = redis.call("GETRANGE", ring, string.format("%d", from), string.format("%d", from + 55))
        if #page < 7 then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
      end
      -- The total before the slice is in the first 44 bits, the link in the last 12.
      local high, low = struct.unpack(">I6I1", page, at + 1)
      local held = (total - (high - high % 16) / 16) % wrap -- from this slice on

      -- Move full or free to it.
      if probes == 0 then count = held end
      probes = probes + 1
      if held <= room then
        free = probe
      else
        -- The link names the first slice from this one on that has permits: from there on as much is held. A link is
        -- modulo 4096: a longer way comes out shorter by 4096 or 8192, which costs one more probe.
        full = probe + (high % 16 * 256 + low - probe) % 4096
        if full >= free then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
      end
    end
    counts[i] = math.floor(count) -- under Lua 5.4 it may be a float, but a reply must hold integers
    if limits[i] - counts[i] < remaining then remaining = limits[i] - counts[i] end
    if count > room then wait_slices = math.max(wait_slices, free - start) end
  end

  local granted = 0
  if permits > 0 and wait_slices == 0 then
    if exceeds(fresh and size or widest > size and 2 * widest or current - last) then
      return -3, 0, 0, 0, {}
    end
    granted = permits
    local cell
    if fresh or current > last then
      local link = current % 4096 -- of the skipped slices too: the current one is the next with permits
      cell = struct.pack(">I6I1", total * 16 + math.floor(link / 256), link % 256)
    end
    total = (total + granted) % wrap
    if fresh or widest > size then
      -- A new or a longer ring is one write, so that none is left without its expiry.
      local cells
      if fresh then
        cells = string.rep(cell, size)
      else
        -- Longer: lay the cells out oldest first, put copies of the oldest before them, drop as many as slices have
        -- begun and add those at the end; then turn them, so that slice s is at index s % widest again.
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
      -- It expires 1 ms late, for servers whose clock for expiry is behind. As text, because Redis 7.2 prints large
      -- round numbers as 1e+9.
      local expires = math.ceil((current + size) * slice / 1000) + 1
      redis.call("SET", ring, state, "PX", string.format("%.0f", expires - math.floor(now / 1000)))
    else
      if current > last then
        -- The expiry first: it can be put back if the cells are refused, for example by an ACL; cells that are
        -- overwritten cannot. In two halves, seconds and milliseconds: half the time of %.0f. (%d may have 32 bits.)
        local expires = math.ceil((current + size) * slice / 1000) + 1
        local ms = expires % 1000
        redis.call("PEXPIREAT", ring, string.format("%d%03d", (expires - ms) / 1000, ms))
        -- The gap: the slices that were skipped, and the current one, start from the total so far. They are written in
        -- one piece or, across the ring's end, in two.
        local gap = current - last
        local index = (last + 1) % size
        local to_end = math.min(gap, size - index)
        local written = redis.pcall("SETRANGE", ring, string.format("%d", 24 + 7 * index), string.rep(cell, to_end))
        if type(written) == "table" then
          redis.call("PEXPIREAT", ring, string.format("%.0f", math.ceil((last + size) * slice / 1000) + 1))
          return written
        end
        if gap > to_end then redis.call("SETRANGE", ring, "24", string.rep(cell, gap - to_end)) end
      end
      redis.call("SETRANGE", ring, "12", struct.pack(">I6I6", current, total)) -- last and total, in the header
    end
    last, remaining = current, remaining - granted
    for i = 1, #counts do counts[i] = counts[i] + granted end
  end

  local wait, reset_after = 0, (last + widest) * slice - now
  if wait_slices > 0 then wait = (current + wait_slices) * slice - now end -- until that slice begins
  if reset_after < 0 or fresh and granted == 0 then reset_after = 0 end
  return granted, math.max(remaining, 0), math.floor(wait), math.floor(reset_after), counts
end

-- An error of one key becomes a number, so that the others are decided. Any other, such as a right withheld by an ACL,
-- ends the call: what was granted before it stays.
local windows = (#ARGV - 2) / 2
for i = 1, #KEYS do
  local granted, remaining, wait, reset_after, counts = -3, 0, 0, 0, {} -- after much work: not decided
  if work < 10000 then granted, remaining, wait, reset_after, counts = decide(KEYS[i]) end
  if not remaining then
    local code = granted.err:match("^%u+")
    if code ~= "BADSTATE" and code ~= "WRONGTYPE" then return granted end
    granted, remaining, wait, reset_after, counts = code == "BADSTATE" and -1 or -2, 0, 0, 0, {}
  end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = granted, remaining, wait, reset_after
  n = n + 4
  for j = 1, windows do reply[n + j] = counts[j] or 0 end
  n = n + windows
end
return reply
