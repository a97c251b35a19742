-- budget_settle v1
--
-- Settles what budget charged for an id: the actual cost takes the place of the estimate. What it cost more, and only
-- that, is charged to the current slices of all windows named, whatever their limits: to budget and slice_ring, one
-- above its limit is full. What it cost less is given back as slice_ring_return does, from the slice of the id's time,
-- in the windows named whose slice and size, under whatever key, were charged for the id; of the others, only the
-- headers are read. Permits of others go back if the ring was deleted and filled again in that slice, if
-- slice_ring_return gave the estimate back before, or if it was charged while the clock was behind. Where Redis
-- refuses a command, the id keeps its estimate; its ttl may be the one of this call.
--
-- GROUP[i]    window       1..8
-- KEYS[i]     ring_i       <prefix>:<limiter>:{<subject>}:sr1:<slice>x<size>
-- KEYS[W+1]   id           <prefix>:<limiter>:{<subject>}:bg1:<id>
--
-- ARGV[1]     ttl          us    1000..31622400000000    how long the id is known once settled
-- ARGV[2]     permits      int   0..1000000000           the actual cost
-- ARGV[3]     unknown      int   0..1                    an id that is not known: 0 leaves it alone, 1 charges it.
--                                                        With 1, a settle that comes when the id is no longer
--                                                        known charges the whole cost on top
-- ARGV[2i+2]  slice_i      us    1000..86400000000       length of a slice
-- ARGV[2i+3]  size_i       int   1..1000                 number of its slices
--
-- REPLY[1]    settled      int   0..1                    1: this call settled it; 0: settled before, or not known
-- REPLY[2]    permits      int   0..1000000000           what the id counts for: the estimate less the most that one
--                                                        window gave back, or the cost if above; left alone: 0
-- REPLY[3]    now          time  0..                     the server's clock at the decision
--
-- ERROR       BADARG       an argument is wrong, or their number
-- ERROR       WRONGTYPE    a ring or id holds something other than a string
-- ERROR       BADSTATE     a ring ends before what the call reads of it, or an id cannot be read as bg/1
--
-- STATE       sr/1         slice_ring's. If Redis refuses to store the id, its charge goes back, but not in reset_after
-- STATE       bg/1         budget's
-- COMPLEXITY  O(N)         N is the number of slices from the id's charge to the last one, at most 1000 in all windows:
--                          giving back reads and writes their cells, none of a window beyond. Charging costs what a
--                          grant of slice_ring does; as estimated, no ring is read
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS < 2 or #KEYS > 9 then return redis.error_reply("BADARG KEYS: want 2 to 9") end
if #ARGV ~= 1 + 2 * #KEYS then
  return redis.error_reply("BADARG ARGV: want ttl, permits, unknown, then slice, size for each window")
end
local rings, id = KEYS, KEYS[#KEYS]
local ttl = integer(ARGV[1], 1000, 31622400000000)
if not ttl then return redis.error_reply("BADARG ttl: want 1000..31622400000000") end
local permits = integer(ARGV[2], 0, 1000000000)
if not permits then return redis.error_reply("BADARG permits: want 0..1000000000") end
local unknown = integer(ARGV[3], 0, 1)
if not unknown then return redis.error_reply("BADARG unknown: want 0..1") end
local slices, sizes = {nil, nil}, {nil, nil} -- room for two: growing is slow
for i = 1, #KEYS - 1 do
  local slice_i = integer(ARGV[2 * i + 2], 1000, 86400000000)
  if not slice_i then return redis.error_reply("BADARG slice_" .. i .. ": want 1000..86400000000") end
  local size_i = integer(ARGV[2 * i + 3], 1, 1000)
  if not size_i then return redis.error_reply("BADARG size_" .. i .. ": want 1..1000") end
  slices[i], sizes[i] = slice_i, size_i
end
-- END

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

local known = redis.pcall("GET", id)
if type(known) == "table" then return known end
local moment, estimate = now, 0
if known then
  -- bg/1: the time in 7 bytes, 2 * permits + settled in 4, then 7 for each window charged.
  local twice = #known > 10 and #known % 7 == 4 and struct.unpack(">I4", known, 8)
  if not twice or twice > 2 * 1000000000 + 1 then
    return redis.error_reply("BADSTATE id: want a time, permits and windows")
  end
  moment, estimate = struct.unpack(">I7", known, 1), math.floor(twice / 2)
  if twice % 2 == 1 then return {0, estimate, now} end
elseif unknown == 0 then
  return {0, 0, now}
end

if permits < estimate then
  -- A window that was not charged holds nothing of the estimate. Of size 0, it is passed over.
  for i = 1, #slices do
    local window, named = struct.pack(">I5I2", slices[i], sizes[i]), false
    for at = 12, #known, 7 do named = named or string.sub(known, at, at + 6) == window end
    if not named then sizes[i] = 0 end
  end
  local surplus = estimate - permits
  -- PART ring_return: printed by make generate
  -- Takes rings, slices, sizes, moment, surplus and struct. Gives returned and writes. In each window the slice of
  -- moment is to hold up to surplus less: the totals behind it fall. writes has the SETRANGEs that do it, three words
  -- each: all is read before it is written.
  local wrap = 281474976710656 -- 2^48: of totals, only the differences count
  local writes, returned, later_left = {nil, nil, nil}, 0, 1000 -- later_left: for all windows together
  for i = 1, #slices do
    local slice, size = slices[i], sizes[i]
    local header = redis.pcall("GETRANGE", rings[i], "0", "18")
    if type(header) == "table" then return header end
    local last, total = -1, 0 -- no ring: moment is later
    if header ~= "" then
      if #header < 19 then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
      last, total = struct.unpack(">I7I6", header, 1)
    end
    local moment_slice = (moment - moment % slice) / slice
    local later = (last - last % slice) / slice - moment_slice -- how many slices came after it, up to the last charge
    if later >= 0 and later < size and later <= later_left then
      later_left = later_left - later
      -- The cells of moment_slice and of each later slice: in one piece or, across the end, in two.
      local index = moment_slice % size
      local from, to_end = 19 + 6 * index, math.min(later + 1, size - index)
      local to = string.format("%d", from + 6 * to_end - 1)
      local cells = redis.call("GETRANGE", rings[i], string.format("%d", from), to)
      if to_end <= later then
        cells = cells .. redis.call("GETRANGE", rings[i], "19", string.format("%d", 18 + 6 * (later + 1 - to_end)))
      end
      if #cells ~= 6 * (later + 1) then
        return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells")
      end
      local after = later > 0 and struct.unpack(">I6", cells, 7) or total
      local fewer = math.min(surplus, (after - struct.unpack(">I6", cells, 1)) % wrap)
      if fewer > 0 then
        returned = math.max(returned, math.floor(fewer)) -- under Lua 5.4 (Dragonfly) it may be a float
        local n = #writes
        writes[n + 1], writes[n + 2], writes[n + 3] = i, "7", struct.pack(">I6", (total - fewer) % wrap)
      end
      if fewer > 0 and later > 0 then
        local lowered = {string.sub(cells, 1, 6)}
        for j = 1, later do
          lowered[j + 1] = struct.pack(">I6", (struct.unpack(">I6", cells, 6 * j + 1) - fewer) % wrap)
        end
        cells = table.concat(lowered)
        local n, at = #writes, string.format("%d", from)
        writes[n + 1], writes[n + 2], writes[n + 3] = i, at, string.sub(cells, 1, 6 * to_end)
        if to_end <= later then
          writes[n + 4], writes[n + 5], writes[n + 6] = i, "19", string.sub(cells, 6 * to_end + 1)
        end
      end
    end
  end
  -- END

  -- The id first: it can be put back. If the first SETRANGE is not refused, none is.
  local lifetime = string.format("%.0f", math.ceil(ttl / 1000) + 1)
  redis.call("SET", id, struct.pack(">I7I4", moment, 2 * (estimate - returned) + 1), "PX", lifetime)
  for i = 1, #writes, 3 do
    local written = redis.pcall("SETRANGE", rings[writes[i]], writes[i + 1], writes[i + 2])
    if type(written) == "table" then
      redis.call("SET", id, known, "PX", lifetime)
      return written
    end
  end
  return {1, estimate - returned, now}
end

-- What it cost more is charged as slice_ring charges. If that is nothing, no ring is read, and only the id is written.
if permits == estimate then slices = {} end
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
local charge, counts_before = permits - estimate, {}
if charge > 0 then
  counts_before = {unpack(counts)}
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
end
local mark = struct.pack(">I7I4", moment, 2 * permits + 1)
-- PART ring_mark: printed by make generate
-- Takes id, mark, ttl, counts_before, rings, struct and what ring_read gives. Writes the id. If that is refused, the
-- totals fall back; the rings stay moved on to the current slices, which changes no count.
local marked = redis.pcall("SET", id, mark, "PX", string.format("%.0f", math.ceil(ttl / 1000) + 1))
if marked.err then
  for i = 1, #counts_before do
    redis.call("SETRANGE", rings[i], "7", struct.pack(">I6", (oldests[i] + counts_before[i]) % wrap))
  end
  return marked
end
-- END
return {1, permits, now}
