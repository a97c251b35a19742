-- slice_ring v1
--
-- The time-slice ring: permits counted by slice of time, in 1 to 8 windows, all granted or none. Each
-- window is a ring of its own, in a key of its own: a call counts only in the windows that it names, and
-- a new one begins empty. Grants never let the current slice and the size_i - 1 before it hold more than
-- limit_i, so no interval of (size_i - 1) * slice_i does: to cover a time t, ask for t / slice_i + 1
-- slices. What is reported is charged first, whatever the windows hold. A denied call that reports
-- nothing writes nothing. It does not book ahead.
--
-- GROUP[i]    window       1..8
-- KEYS[i]     ring_i       <prefix>:<limiter>:{<subject>}:sr1:<slice>x<size>
--
-- ARGV[1]     permits      int   0..1000000000           wanted now, up to every limit; 0 asks for none
-- ARGV[2]     reported     int   0..1000000000           charged in any case; with permits 0, 0 only looks
-- ARGV[3i]    slice_i      us    1000..86400000000       length of a slice
-- ARGV[3i+1]  size_i       int   1..1000                 number of its slices
-- ARGV[3i+2]  limit_i      int   1..1000000000           permits in the window
--
-- REPLY[1]    granted      int   0..1000000000           permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..1000000000           permits that could be granted now
-- REPLY[3]    wait         us    0..                     until they come free (permits 0: one), if no one else asks
-- REPLY[4]    reset_after  us    0..                     until the last charge has left all windows
-- REPLY[5]    now          time  0..                     the server's clock at the decision
-- REPLY[5+i]  count_i      int   0..                     permits in the window now; charges stop at 10^13
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    a ring holds something other than a string
-- ERROR       BADSTATE     a ring holds a string that is not in the layout sr/1
--
-- STATE       sr/1         Big-endian integers: the time of the last charge in 7 bytes, the total charged in 6, the
--                          total before the oldest slice of the window then in 6; and size cells of 6. Slice s begins
--                          at s * slice; cell s % size has the total before it. Totals wrap at 2^48. A clock behind
--                          the last charge stands still there; where it is more than the window and 60 s behind, the
--                          ring counts as empty. So does an empty string. Expires when the last charge has left
-- COMPLEXITY  O(W)         TIME, and for each of W windows GETRANGE and SETRANGE. A new slice: GETRANGE, PEXPIREAT, and
--                          a cell for each slice since the last charge; an empty window: SET. A denial reads all cells
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < min or n > max then return nil end
  return n
end

if #KEYS < 1 or #KEYS > 8 then return redis.error_reply("BADARG KEYS: want 1 to 8") end
if #ARGV ~= 2 + 3 * #KEYS then
  return redis.error_reply("BADARG ARGV: want permits, reported, then slice, size, limit for each window")
end
local rings = KEYS
local permits = integer(ARGV[1], 0, 1000000000)
if not permits then return redis.error_reply("BADARG permits: want 0..1000000000") end
local reported = integer(ARGV[2], 0, 1000000000)
if not reported then return redis.error_reply("BADARG reported: want 0..1000000000") end
local slices, sizes, limits = {nil, nil}, {nil, nil}, {nil, nil} -- room for two: growing is slow
for i = 1, #KEYS do
  local slice_i = integer(ARGV[3 * i], 1000, 86400000000)
  if not slice_i then return redis.error_reply("BADARG slice_" .. i .. ": want 1000..86400000000") end
  local size_i = integer(ARGV[3 * i + 1], 1, 1000)
  if not size_i then return redis.error_reply("BADARG size_" .. i .. ": want 1..1000") end
  local limit_i = integer(ARGV[3 * i + 2], 1, 1000000000)
  if not limit_i then return redis.error_reply("BADARG limit_" .. i .. ": want 1..1000000000") end
  slices[i], sizes[i], limits[i] = slice_i, size_i, limit_i
end
-- END
for i = 1, #limits do
  if permits > limits[i] then return redis.error_reply("BADARG permits: want up to every limit") end
end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

-- PART struct: printed by make generate
-- miniredis, a Redis for tests, has no library struct: these two do the same for the formats used here, big-endian
-- integers of 1 to 8 bytes. rawget, because Redis raises an error for a global that does not exist.
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
-- MANY: slice_ring_many_v1 repeats what follows for 1..16 keys.
-- PART ring_read: printed by make generate
-- Takes rings, slices, sizes, now. Gives for each window: its time, the slices since the last charge (gaps), the
-- total before its oldest slice (oldests) and what it holds (counts). Every ring is read before one is written.
local wrap = 281474976710656 -- 2^48: of totals, only the differences count
local times, gaps, oldests, counts = {nil, nil}, {nil, nil}, {nil, nil}, {nil, nil}
for i = 1, #slices do
  local slice, size = slices[i], sizes[i]
  local header = redis.pcall("GETRANGE", rings[i], "0", "18")
  if header.err then return header end
  local last, total, oldest = now - size * slice -- no ring: as if all had just left the window
  if header ~= "" then
    if #header < 19 then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
    last, total, oldest = struct.unpack(">I7I6I6", header, 1)
  end
  -- A clock that stepped back stands still at the last charge, unless that was written by a clock that was wrong.
  local time = last > now and last or now
  if time - now > size * slice + 60000000 then time, last = now, now - size * slice end
  local current = (time - time % slice) / slice
  local gap = current - (last - last % slice) / slice
  if gap >= size then -- all has left the window
    total, oldest = 0, 0
  elseif gap > 0 then -- the window has moved: its oldest slice is current - size + 1
    local at = 19 + 6 * ((current + 1) % size)
    local cell = redis.call("GETRANGE", rings[i], string.format("%d", at), string.format("%d", at + 5))
    if #cell < 6 then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
    oldest = struct.unpack(">I6", cell, 1)
  end
  local count = math.floor((total - oldest) % wrap) -- under Lua 5.4 a float; a reply wants an integer
  times[i], gaps[i], oldests[i], counts[i] = time, gap, oldest, count
end
-- END
-- PART ring_decide: printed by make generate
-- Takes permits, reported, limits, and what ring_read gives. Gives granted, wait, remaining and reset_after.
local wanted, wait = math.max(permits, 1), 0 -- a look is told how long one permit would wait
local remaining, reset_after, reset_charged = 1000000000, 0, 0
for i = #slices, 1, -1 do
  local slice, size, count = slices[i], sizes[i], counts[i] + reported
  local room, left = limits[i] - wanted, limits[i] - count
  local begins = times[i] - times[i] % slice -- of the current slice
  local empty = begins + size * slice - now -- until it has left the window
  if left < remaining then remaining = left end
  if empty > reset_charged then reset_charged = empty end
  if empty - gaps[i] * slice > reset_after then reset_after = empty - gaps[i] * slice end
  if count > room and empty > wait then -- where another window waits longer, this one need not be searched
    -- From slice free on the window holds no more than room, from slice full on it does. The later the slice, the
    -- less: halving moves the two towards each other. The caller waits until free is the window's oldest slice.
    local current = begins / slice
    local full, free, last_charged = current - size + 1, current + 1, current - gaps[i]
    local total = oldests[i] + math.min(count, 10000000000000) -- with the report
    local cells = redis.call("GETRANGE", rings[i], "19", "-1")
    if #cells < 6 * size and gaps[i] < size then
      return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells")
    end
    while free - full > 1 do
      local middle, before = math.floor((full + free) / 2), oldests[i] + counts[i]
      if middle <= last_charged then before = struct.unpack(">I6", cells, 6 * (middle % size) + 1) end
      if (total - before) % wrap > room then full = middle else free = middle end
    end
    wait = math.max(wait, (free + size - 1) * slice - now)
  end
end
local granted = wait == 0 and permits or 0
-- END
local charge = reported + granted
if charge > 0 then
  -- PART ring_charge: printed by make generate
  -- Takes charge, rings, slices, sizes, now, and what ring_read gives. Charges every window, or none if Redis refuses
  -- a command: first what changes no decision, then SETRANGE alone, which Redis refuses at once or not at all.
  for i = 1, #slices do
    local gap = gaps[i]
    if gap > 0 then
      local slice, size = slices[i], sizes[i]
      -- 1 ms late, for servers whose clock for expiry is behind TIME. As text: Redis 7.2 prints some as 1e+9.
      local expires = math.ceil((times[i] - times[i] % slice + size * slice) / 1000) + 1
      if gap < size then
        redis.call("PEXPIREAT", rings[i], string.format("%.0f", expires))
      else
        local life = string.format("%.0f", expires - math.floor(now / 1000))
        redis.call("SET", rings[i], string.rep("\0", 19 + 6 * size), "PX", life)
      end
    end
  end
  for i = 1, #slices do
    local gap, size, oldest, count = gaps[i], sizes[i], oldests[i], counts[i]
    -- The gap: the slices that were skipped, and the current one, begin with the total so far. They are written in
    -- one piece or, across the end, in two.
    if gap > 0 and gap < size then
      local cell = struct.pack(">I6", (oldest + count) % wrap)
      local index = ((times[i] - times[i] % slices[i]) / slices[i] - gap + 1) % size
      local to_end = math.min(gap, size - index)
      redis.call("SETRANGE", rings[i], string.format("%d", 19 + 6 * index), string.rep(cell, to_end))
      if gap > to_end then redis.call("SETRANGE", rings[i], "19", string.rep(cell, gap - to_end)) end
    end
    count = count + charge
    if count > 10000000000000 then count = 10000000000000 end
    redis.call("SETRANGE", rings[i], "0", struct.pack(">I7I6I6", times[i], (oldest + count) % wrap, oldest))
    counts[i] = count
  end
  -- END
  remaining, reset_after = remaining - granted, reset_charged
end
return {granted, math.max(remaining, 0), math.floor(wait), math.floor(reset_after), now, unpack(counts)}
