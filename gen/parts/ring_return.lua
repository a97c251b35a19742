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
