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
