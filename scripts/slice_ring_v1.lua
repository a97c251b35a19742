-- slice_ring v1
--
-- The time-slice ring: permits counted by slice of time, in 1 to 8 windows, all granted or none. Each window is a ring
-- of its own, in a key of its own: a call counts only in the windows that it names, and one not named before begins
-- empty. Grants never let the current slice and the size_i - 1 before it hold more than limit_i. So no interval of
-- (size_i - 1) * slice_i is granted more, unless the clock is set, the limit changes, the ring is lost or permits are
-- given back: to cover a time t, ask for t / slice_i + 1 slices, rounded up. What is reported is charged first,
-- whatever the windows hold; a denied call writes nothing else. An error charges nothing, where rights are the same
-- for all rings. Nothing is booked ahead. A ring named twice is charged once, by the smaller limit. Key names are not
-- checked.
--
-- GROUP[i]    window       1..8
-- KEYS[i]     ring_i       <prefix>:<limiter>:{<subject>}:sr1:<slice>x<size>
--
-- ARGV[1]     permits      int   0..1000000000           wanted now, up to every limit; 0 asks for none
-- ARGV[2]     reported     int   0..1000000000           charged even if denied; both 0: only looks
-- ARGV[3i]    slice_i      us    1000..86400000000       length of a slice
-- ARGV[3i+1]  size_i       int   1..1000                 number of its slices
-- ARGV[3i+2]  limit_i      int   1..1000000000           permits in the window
--
-- REPLY[1]    granted      int   0..1000000000           permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..1000000000           permits that could be granted now
-- REPLY[3]    wait         us    0..                     until they are free (0: one), if nobody else asks
-- REPLY[4]    reset_after  us    0..                     until the last charge has left all windows
-- REPLY[5]    now          time  0..                     the server's clock at the decision
-- REPLY[5+i]  count_i      int   0..                     permits in the window now; charges stop at 10^13
--
-- ERROR       BADARG       an argument is wrong, or their number
-- ERROR       WRONGTYPE    a ring holds something other than a string
-- ERROR       BADSTATE     a ring ends before what the call reads of it
--
-- STATE       sr/1         Big-endian: the time of the last charge in 7 bytes, the total charged in 6, the total before
--                          the window's oldest slice then in 6; size cells of 6. Slice s begins at s * slice; cell s %
--                          size has the total before it. Totals wrap at 2^48. A clock behind the last charge stands
--                          still there; while it is more than the window and 60 s behind, the ring counts as empty, and
--                          waits may be too short. An empty string is no ring. Expires when the last charge has left;
--                          a new ring for which Redis refuses PEXPIREAT holds nothing, and stays until it is charged
-- COMPLEXITY  O(W S)       TIME; GETRANGE and SETRANGE for each of W windows. A new slice adds GETRANGE, PEXPIREAT and
--                          a cell for each slice since, a new ring S; a full window GETRANGE of S
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
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
-- MANY: slice_ring_many_v1 repeats what follows for 1..16 keys.
-- PART ring_read: printed by make generate
-- Takes rings, slices, sizes, now and struct. Gives times, gaps, oldests, counts, wrap and max_count. For each
-- window: its time, the slices since the last charge (up to size; math.huge if there is no ring), the total before
-- its oldest slice, and what it holds. Totals wrap: only their differences count. All is read before any is written.
local wrap, max_count, step_back = 281474976710656, 10000000000000, 60000000 -- 2^48, 10^13, 60 s
local times, gaps, oldests, counts = {nil, nil}, {nil, nil}, {nil, nil}, {nil, nil}
for i = 1, #slices do
  local slice, size = slices[i], sizes[i]
  local header = redis.pcall("GETRANGE", rings[i], "0", "18")
  if type(header) == "table" then return header end
  local last, total, oldest = now - size * slice -- no ring: all has left
  if header ~= "" then
    if #header < 19 then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
    last, total, oldest = struct.unpack(">I7I6I6", header, 1)
  end
  -- A clock that stepped back stands still at the last charge, unless that was written by a clock that was wrong.
  local time = last > now and last or now
  if time - now > size * slice + step_back then time, last = now, now - size * slice end
  local current = (time - time % slice) / slice
  local gap = current - (last - last % slice) / slice
  if gap >= size then -- all has left the window
    gap, total, oldest = header == "" and math.huge or size, 0, 0
  elseif gap > 0 then -- the window has moved: its oldest slice is current - size + 1
    local at = 19 + 6 * ((current + 1) % size)
    local cell = redis.call("GETRANGE", rings[i], string.format("%d", at), string.format("%d", at + 5))
    if #cell < 6 then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
    oldest = struct.unpack(">I6", cell, 1)
  end
  local count = math.floor((total - oldest) % wrap) -- under Lua 5.4 (Dragonfly) a float
  times[i], gaps[i], oldests[i], counts[i] = time, gap, oldest, count
end
-- END
-- PART ring_decide: printed by make generate
-- Takes permits, reported, limits, rings, slices, sizes, now, struct and what ring_read gives. Gives granted, wait,
-- remaining, reset_after and reset_if_charged. The last window, mostly the longest, spares the others their search.
local wanted, wait = permits == 0 and 1 or permits, 0 -- a look is told how long one permit would wait
local remaining, reset_after, reset_if_charged, unpack_cell = 1000000000, 0, 0, struct.unpack
for i = #slices, 1, -1 do
  local slice, size, count = slices[i], sizes[i], counts[i] + reported
  local max, left = limits[i] - wanted, limits[i] - count -- max: that it may hold before a grant
  local current = (times[i] - times[i] % slice) / slice
  local empties_in = (current + size) * slice - now -- until the current slice has left
  if left < remaining then remaining = left end
  if empties_in > reset_if_charged then reset_if_charged = empties_in end
  if empties_in - gaps[i] * slice > reset_after then reset_after = empties_in - gaps[i] * slice end
  if count > max and empties_in > wait then -- else it is free, or empty before another one is free
    -- The caller waits until the window begins at free: a window from full on holds more than max, one from free on
    -- does not. The last charge may decide alone; else halving brings the two together.
    local total, full, free = oldests[i] + math.min(count, max_count), current, current + 1
    if total - oldests[i] - counts[i] <= max then -- else the report alone is too much
      local cells = redis.call("GETRANGE", rings[i], "19", "-1")
      if #cells < 6 * size then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
      full, free = current - size + 1, current - gaps[i] -- the oldest slice, and the one charged last
      local before = unpack_cell(">I6", cells, 6 * (free % size) + 1)
      if (total - before) % wrap > max then full, free = free, free + 1 end
      while free - full > 1 do
        local middle = (full + free - (full + free) % 2) / 2
        before = unpack_cell(">I6", cells, 6 * (middle % size) + 1)
        if (total - before) % wrap > max then full = middle else free = middle end
      end
    end
    wait = math.max(wait, (free + size - 1) * slice - now)
  end
end
local granted = wait == 0 and permits or 0
-- END
local charge = reported + granted
if charge > 0 then
  -- PART ring_charge: printed by make generate
  -- Takes charge, rings, slices, sizes, struct and what ring_read gives. Charges every window, or none if Redis
  -- refuses a command: first what changes no decision, then SETRANGE alone. Of that the first is refused, or none:
  -- rights are the same for all, and memory counts only before a script's first write.
  for i = 1, #slices do
    local gap, slice, size = gaps[i], slices[i], sizes[i]
    if gap > 0 then
      if gap > size then -- no ring: Redis puts zeros before the last byte
        redis.call("SETRANGE", rings[i], string.format("%d", 18 + 6 * size), "\0")
      end
      -- 1 ms late: the clock of expiry may be behind TIME. As text: Redis 7.2 prints some numbers as 1e+9.
      local expires_ms = math.ceil((times[i] - times[i] % slice + size * slice) / 1000) + 1
      redis.call("PEXPIREAT", rings[i], string.format("%.0f", expires_ms))
    end
  end
  for i = 1, #slices do
    local gap, size, oldest, count = gaps[i], sizes[i], oldests[i], counts[i]
    -- Each slice of the gap, up to the current one, begins with the total so far: a piece, or two across the end.
    if gap > 0 and gap <= size then
      local cell = struct.pack(">I6", (oldest + count) % wrap)
      local index = ((times[i] - times[i] % slices[i]) / slices[i] - gap + 1) % size
      local to_end = math.min(gap, size - index)
      redis.call("SETRANGE", rings[i], string.format("%d", 19 + 6 * index), string.rep(cell, to_end))
      if gap > to_end then redis.call("SETRANGE", rings[i], "19", string.rep(cell, gap - to_end)) end
    end
    count = count + charge
    if count > max_count then count = max_count end
    counts[i] = count
    redis.call("SETRANGE", rings[i], "0", struct.pack(">I7I6I6", times[i], (oldest + count) % wrap, oldest))
  end
  -- END
  remaining, reset_after = remaining - granted, reset_if_charged
end
return {granted, math.max(remaining, 0), math.floor(wait), math.floor(reset_after), now, unpack(counts)}
