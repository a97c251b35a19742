-- In each section, the slice that the permits were counted in is to hold fewer: the shift and the totals of the later
-- slices fall. Its own total counts what came before it. A link may now lead to an empty slice: no slice before that
-- has permits, so slice_ring only needs one more probe. Nothing is written before all is read.
local writes, returned, max_later = {}, 0, 1000 -- max_later: of all sections together
local first = 14 + 20 * stored
for j = 1, stored do
  local slice, size, shift = struct.unpack(">I5I2I6", header, 20 * j - 5)
  if slice < 1000 or size < 1 or size > 10000 then
    return redis.error_reply("BADSTATE ring: want 1..10000 slices of 1 ms or more")
  end
  local moment_slice = (moment - moment % slice) / slice
  local later = (last - last % slice) / slice - moment_slice -- how many slices came after it
  if later >= 0 and later < size and later <= max_later then
    max_later = max_later - later
    -- The cells of moment_slice and of each later slice: in one piece or, across the section's end, in two.
    local index = moment_slice % size
    local from, to_end = first + 7 * index, math.min(later + 1, size - index)
    local cells = redis.call("GETRANGE", ring, string.format("%d", from), string.format("%d", from + 7 * to_end - 1))
    if to_end <= later then
      local to = string.format("%d", first + 7 * (later + 1 - to_end) - 1)
      cells = cells .. redis.call("GETRANGE", ring, string.format("%d", first), to)
    end
    if #cells ~= 7 * (later + 1) then
      return redis.error_reply("BADSTATE ring: want a cell for each slice")
    end

    -- The total before a slice is the first 44 bits of its cell: its first six bytes, divided by 16 and rounded down.
    local after = (total + shift) % wrap
    if later > 0 then after = math.floor(struct.unpack(">I6", cells, 8) / 16) end
    local fewer = math.min(surplus, (after - math.floor(struct.unpack(">I6", cells, 1) / 16)) % wrap)
    if fewer > 0 then
      local lowered = {string.sub(cells, 1, 7)}
      for i = 1, later do
        local high, low = struct.unpack(">I6I1", cells, 7 * i + 1)
        lowered[i + 1] = struct.pack(">I6I1", (high - 16 * fewer) % (16 * wrap), low)
      end
      cells = table.concat(lowered)
      writes[#writes + 1] = {20 * j + 1, struct.pack(">I6", (shift - fewer) % wrap)} -- the shift, in the header
      if later > 0 then writes[#writes + 1] = {from, string.sub(cells, 1, 7 * to_end)} end
      if to_end <= later then writes[#writes + 1] = {first, string.sub(cells, 7 * to_end + 1)} end
      if fewer > returned then returned = math.floor(fewer) end -- under Lua 5.4 it may be a float
    end
  end
  first = first + 7 * size
end
