-- slice_ring_return v1
--
-- Gives back permits of a slice_ring that were granted and not used: the slice that they were
-- counted in holds fewer, in every window at once. Not given back is what the slice does not hold,
-- what has left the ring, and what is more than 1000 slices back. It cannot know whether the permits
-- were used. If the ring was deleted and begun again in that slice, it gives back permits of others.
--
-- KEYS[1]     ring         <prefix>:<limiter>:{<subject>}:sr1:<slice>
--
-- ARGV[1]     slice        us    1000..86400000000       length of a slice
-- ARGV[2]     taken        time  0..9007199254740991     when they were granted: REPLY[5], now, of slice_ring
-- ARGV[3]     permits      int   1..1000000000           to give back
--
-- REPLY[1]    returned     int   0..1000000000           permits given back
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    ring holds something other than a string
-- ERROR       BADSTATE     ring holds a string that slice_ring did not write, or slices of another length
--
-- STATE       sr/1         slice_ring's: the totals of the later slices and of the header fall by what is
--                          given back; the links and the expiry stay
-- COMPLEXITY  O(N)         N slices, at most 1000, have begun since: reads and writes their cells
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, least, most)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < least or n > most then return nil end
  return n
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 3 then return redis.error_reply("BADARG ARGV: want 3") end
local ring = KEYS[1]
local slice = integer(ARGV[1], 1000, 86400000000)
if not slice then return redis.error_reply("BADARG slice: want 1000..86400000000") end
local taken = integer(ARGV[2], 0, 9007199254740991)
if not taken then return redis.error_reply("BADARG taken: want 0..9007199254740991") end
local permits = integer(ARGV[3], 1, 1000000000)
if not permits then return redis.error_reply("BADARG permits: want 1..1000000000") end
-- END

-- Totals wrap at 2^44: only their differences count. See slice_ring.
local wrap = 17592186044416

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

local header = redis.pcall("GETRANGE", ring, "0", "23")
if header.err then return header end
if header == "" then return {0} end
local stored_slice, size, last, total
if #header == 24 then
  stored_slice, size, last, total = struct.unpack(">I6I6I6I6", header, 1)
end
if stored_slice ~= slice then return redis.error_reply("BADSTATE ring: want the slice it was written with") end
if size < 1 or size > 10000 then return redis.error_reply("BADSTATE ring: want 1..10000 slices") end

-- While a clock is behind, slice_ring counts permits in its last slice, which is later than that of taken. Then this
-- takes from slice_taken what others were granted there, or nothing. No limit is broken: a window that holds
-- slice_taken holds the later slice too, so it falls by no more than this caller had added to it.
local slice_taken = math.floor(taken / slice)
local later = last - slice_taken -- how many slices came after it
if later < 0 or later >= size or later > 1000 then return {0} end

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
local returned = math.min(permits, taken_there)
if returned == 0 then return {0} end

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
redis.call("SETRANGE", ring, start, string.sub(cells, 1, 7 * to_end))
if to_end <= later then redis.call("SETRANGE", ring, "24", string.sub(cells, 7 * to_end + 1)) end
redis.call("SETRANGE", ring, "18", struct.pack(">I6", (total - returned) % wrap))

return {math.floor(returned)} -- under Lua 5.4 a quotient is a float, but a reply must hold integers
