-- slice_ring_return v1
--
-- Gives back permits of a slice_ring that were granted and not used. In each window it lowers the slice
-- in which they were counted, but not below 0. Nothing goes back in a window that this slice has left,
-- or where it is too far back: the windows together may go back 1000 slices. Give back no more than was
-- granted, once: more takes permits of others. After a lost reply, do not send it again. If the ring
-- was deleted and filled again in that slice, it gives back permits of others.
--
-- KEYS[1]     ring         <prefix>:<limiter>:{<subject>}:sr1
--
-- ARGV[1]     moment       time  0..9007199254740991     when they were granted: REPLY[5], now, of slice_ring
-- ARGV[2]     permits      int   1..1000000000           to give back
--
-- REPLY[1]    returned     int   0..1000000000           permits given back, in the window that held most of them
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    ring holds something other than a string
-- ERROR       BADSTATE     ring holds a string that is not in the layout sr/1
--
-- STATE       sr/1         slice_ring's: the shifts and the totals of the later slices fall by what is given back;
--                          the links and the expiry stay
-- COMPLEXITY  O(N)         N is the number of slices since the grant, at most 1000. Giving back reads and
--                          writes their cells
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < min or n > max then return nil end
  return n
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 2 then return redis.error_reply("BADARG ARGV: want 2") end
local ring = KEYS[1]
local moment = integer(ARGV[1], 0, 9007199254740991)
if not moment then return redis.error_reply("BADARG moment: want 0..9007199254740991") end
local permits = integer(ARGV[2], 1, 1000000000)
if not permits then return redis.error_reply("BADARG permits: want 1..1000000000") end
-- END

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

-- PART ring_header: printed by make generate
-- The header: 14 bytes, and 20 for each section, mostly one or two; the ring itself may have 70 KB.
local header = redis.pcall("GETRANGE", ring, "0", "53")
if header.err then return header end
local stored, total, last = 0, 0
if header ~= "" or redis.call("EXISTS", ring) == 1 then
  if #header > 13 then stored, last, total = struct.unpack(">I1I7I6", header, 1) end
  if #header < 14 + 20 * stored then header = redis.call("GETRANGE", ring, "0", "173") end
  if stored < 1 or #header < 14 + 20 * stored then -- or more than 8
    return redis.error_reply("BADSTATE ring: want 1..8 sections")
  end
end
-- Totals wrap at 2^44: only their differences count. What the windows of a call may hold is less. A window that calls
-- leave out seems emptier when it holds 2^44.
local wrap = 17592186044416
-- END

-- While a clock is behind, slice_ring counts permits at its last grant, which is later than moment. Then this takes
-- from moment_slice what others were granted there, or nothing. No limit is broken: a window that holds moment_slice
-- holds the later slice too, so it falls by no more than this caller had added to it.
local surplus = permits
-- PART ring_return: printed by make generate
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
-- END
for i = 1, #writes do redis.call("SETRANGE", ring, string.format("%d", writes[i][1]), writes[i][2]) end

return {returned}
