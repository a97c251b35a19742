-- budget_settle v1
--
-- Settles what budget charged for an id: the actual cost takes the place of the estimate. What it
-- cost more is charged to the current slice, whatever the limits: while a window holds more than
-- its limit, budget and slice_ring deny. What it cost less is given back to the slice that was
-- charged, as slice_ring_return does: no more than that slice holds, and at most 1000 slices back.
-- If the ring was deleted and begun again in that slice, it gives back permits of others. Where
-- Redis refuses a command, the id keeps its estimate, and its ttl may begin anew.
--
-- KEYS[1]     ring         <prefix>:<limiter>:{<subject>}:sr1:<slice>
-- KEYS[2]     id           <prefix>:<limiter>:{<subject>}:bg1:<slice>:<id>
--
-- ARGV[1]     slice        us    1000..86400000000       length of a slice
-- ARGV[2]     size         int   1..10000                slices of the widest window
-- ARGV[3]     ttl          us    1000..31622400000000    how long the id is known from now on
-- ARGV[4]     permits      int   0..1000000000           the actual cost
-- ARGV[5]     unknown      int   0..1                    an id that is not known: 0 leaves it alone, 1 charges it
--
-- REPLY[1]    settled      int   0..1                    1: this call settled it; 0: settled before, or not known
-- REPLY[2]    permits      int   0..1000000000           charged for the id in all; 0 where it is not known
-- REPLY[3]    now          time  0..                     the server's clock at the decision
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    ring or id holds something other than a string
-- ERROR       BADSTATE     ring or id holds a string that no script of these wrote, or slices of another length
--
-- STATE       sr/1         slice_ring's. Charges stop where the ring holds 7 * 10^12 permits
-- STATE       bg/1         budget's
-- COMPLEXITY  O(N)         N slices, at most 1000, have begun since: to give back reads and writes their cells. A
--                          charge costs what a grant of slice_ring does
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, least, most)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < least or n > most then return nil end
  return n
end

if #KEYS ~= 2 then return redis.error_reply("BADARG KEYS: want 2") end
if #ARGV ~= 5 then return redis.error_reply("BADARG ARGV: want 5") end
local ring, id = KEYS[1], KEYS[2]
local slice = integer(ARGV[1], 1000, 86400000000)
if not slice then return redis.error_reply("BADARG slice: want 1000..86400000000") end
local size = integer(ARGV[2], 1, 10000)
if not size then return redis.error_reply("BADARG size: want 1..10000") end
local ttl = integer(ARGV[3], 1000, 31622400000000)
if not ttl then return redis.error_reply("BADARG ttl: want 1000..31622400000000") end
local permits = integer(ARGV[4], 0, 1000000000)
if not permits then return redis.error_reply("BADARG permits: want 0..1000000000") end
local unknown = integer(ARGV[5], 0, 1)
if not unknown then return redis.error_reply("BADARG unknown: want 0..1") end
-- END

local widest = size -- its name in slice_ring: what follows is mostly as there

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

-- PART struct: printed by make generate
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
-- END

-- PART ring_read: printed by make generate
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
-- END

local charged = redis.pcall("GET", id)
if type(charged) == "table" then return charged end
local slice_taken, estimate = current, 0
if charged then
  local state = #charged == 10 and struct.unpack(">I4", charged, 7)
  if not state or state > 2000000001 then return redis.error_reply("BADSTATE id: want a slice and permits") end
  slice_taken, estimate = struct.unpack(">I6", charged, 1), math.floor(state / 2)
  if state % 2 == 1 then return {0, estimate, now} end
elseif unknown == 0 then
  return {0, 0, now}
end

-- What is stored for the id from now on: what it was charged in all, and that it is settled.
local function settled(in_all) return struct.pack(">I6I4", slice_taken, 2 * in_all + 1) end
local lifetime = string.format("%.0f", math.ceil(ttl / 1000) + 1)

local granted = permits - estimate -- what is added to the ring, named as in slice_ring
local later = last - slice_taken -- how many slices came after the one that the estimate was counted in
if granted < 0 and not fresh and later >= 0 and later < size and later <= 1000 then
  -- PART ring_taken: printed by make generate
  -- The cells of slice_taken and of each later slice: in one piece or, across the ring's end, in two. Positions are
  -- text: redis.call takes longer to print a number.
  local from = 24 + 7 * (slice_taken % size)
  local start = string.format("%d", from)
  local to_end = math.min(later + 1, size - slice_taken % size)
  local cells = redis.call("GETRANGE", ring, start, string.format("%d", from + 7 * to_end - 1))
  if to_end <= later then
    cells = cells .. redis.call("GETRANGE", ring, "24", string.format("%d", 23 + 7 * (later + 1 - to_end)))
  end
  if #cells ~= 7 * (later + 1) then
    return redis.error_reply("BADSTATE ring: want a total and a link for each slice")
  end

  -- The total before a slice is the first 44 bits of its cell: its first six bytes, divided by 16 and rounded down.
  local function total_before(i)
    return math.floor(struct.unpack(">I6", cells, 7 * i + 1) / 16)
  end
  local after = total
  if later > 0 then after = total_before(1) end
  local taken_there = (after - total_before(0)) % wrap -- what slice_taken holds
  -- END
  local returned = math.min(-granted, taken_there)

  -- The mark comes before the refund. If the refund is refused, the id is unsettled again.
  local charged_in_all = math.floor(estimate - returned)
  redis.call("SET", id, settled(charged_in_all), "PX", lifetime)
  if returned > 0 then
    -- PART ring_lowered: printed by make generate
    -- Only totals change, and not that of slice_taken itself, which counts what came before it. A link may now lead to
    -- an empty slice: no slice before that has permits, so slice_ring only needs one more probe.
    local lowered = {cells:sub(1, 7)}
    for i = 1, later do
      local high, low = struct.unpack(">I6I1", cells, 7 * i + 1)
      lowered[i + 1] = struct.pack(">I6I1", (high - 16 * returned) % (16 * wrap), low)
    end
    cells = table.concat(lowered)
    -- END
    local written = redis.pcall("SETRANGE", ring, start, string.sub(cells, 1, 7 * to_end))
    if type(written) == "table" then
      redis.call("SET", id, charged, "PX", lifetime)
      return written
    end
    if to_end <= later then redis.call("SETRANGE", ring, "24", string.sub(cells, 7 * to_end + 1)) end
    redis.call("SETRANGE", ring, "18", struct.pack(">I6", (total - returned) % wrap))
  end
  return {1, charged_in_all, now}
end
granted = math.max(granted, 0) -- below 0 there was nowhere to give back to

-- Totals wrap at 2^44. A ring of 10000 slices may be granted 10^13 permits after this charge, so it holds no more than
-- what stays below 2^44 with these.
if granted > 0 and not fresh then
  local at = 24 + 7 * ((current + 1) % size) -- the oldest slice of the ring
  local oldest = redis.call("GETRANGE", ring, string.format("%d", at), string.format("%d", at + 6))
  if #oldest < 7 then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
  local held = (total - math.floor(struct.unpack(">I6", oldest, 1) / 16)) % wrap
  granted = math.floor(math.max(0, math.min(granted, 7000000000000 - held)))
end
local before = total
if granted > 0 then
  -- PART ring_write: printed by make generate
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
  -- END
end
-- The mark comes after the charge. If it is refused, the ring loses what it was just charged; it stays moved on to the
-- current slice, which changes no count.
local marked = redis.pcall("SET", id, settled(estimate + granted), "PX", lifetime)
if marked.err then
  if granted > 0 then redis.call("SETRANGE", ring, "18", struct.pack(">I6", before)) end
  return marked
end
return {1, estimate + granted, now}
