-- The gaps: the slices that were skipped, and the current one, start from the total so far, and link to the
-- current one: it is the next with permits. They are written in one piece or, across the section's end, in two.
local sections, writes, expired, expires, from = "", {}, 0, 0, 14 + 20 * stored
for j = 1, stored do
  local slice, size, shift = struct.unpack(">I5I2I6", header, 20 * j - 5)
  if slice < 1000 or size < 1 or size > 10000 then
    return redis.error_reply("BADSTATE ring: want sections of 1..10000 slices")
  end
  local first = string.sub(header, 20 * j + 8, 20 * j + 14) -- the cell of the first slice of the window
  local last_slice, current = (last - last % slice) / slice, (time - time % slice) / slice
  local gap = math.min(current - last_slice, size)
  if gap > 0 then
    begun = begun + gap
    local link = current % 4096
    local cell = struct.pack(">I6I1", (before + shift) % wrap * 16 + math.floor(link / 256), link % 256)
    local index = (last_slice + 1) % size
    local to_end = math.min(gap, size - index)
    writes[#writes + 1] = {from + 7 * index, string.rep(cell, to_end)}
    if gap > to_end then writes[#writes + 1] = {from, string.rep(cell, gap - to_end)} end
    first = cell
    if gap < size then
      local at = from + 7 * ((current + 1) % size)
      first = read(at)
      if #first < 7 then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
    end
  end
  sections = sections .. struct.pack(">I5I2I6", slice, size, shift) .. string.sub(first, 1, 7)
  expired = math.max(expired, (last_slice + size) * slice)
  expires = math.max(expires, (current + size) * slice)
  from = from + 7 * size
end
