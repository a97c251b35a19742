-- slice_ring_return v1
--
-- Gives back permits of a slice_ring that were taken and not used: the slice in which they were
-- taken holds so many less, in every window at once. It never makes the limiter grant more than
-- its limits: what the slice does not hold (any more), what has left the ring, and what is more
-- than 1000 slices back is not given back. Two things it cannot know: whether the permits were used,
-- and whether the ring was removed and begun again in that slice; then others' permits are taken.
--
-- KEYS[1]     ring         <prefix>:<limiter>:{<subject>}:sr1:<slice>
--
-- ARGV[1]     slice        us    1000..86400000000       length of a slice
-- ARGV[2]     taken        time  0..9007199254740991     when they were granted: now in slice_ring's reply
-- ARGV[3]     permits      int   1..1000000000           to give back
--
-- REPLY[1]    returned     int   0..1000000000           permits given back
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    ring holds something other than a string
-- ERROR       BADSTATE     ring holds a string that slice_ring did not write, or slices of another length
--
-- STATE       sr/1         slice_ring's: the totals behind the slice fall by what is given back; the
--                          links and the expiry stay
-- COMPLEXITY  O(N)         N slices, at most 1000, have begun since: reads and writes their cells
-- REDIS       5.0

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

-- Totals wrap at 2^44: only their differences count.
local wrap = 17592186044416
local header_bytes = 24

-- Where the library struct is missing (miniredis) the same bytes are made and read by hand.
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
    return unpack(numbers)
  end,
}

local header = redis.pcall("GETRANGE", ring, "0", "23")
if header.err then return header end
if header == "" then return {0} end
local stored_slice, size, last, total
if #header == header_bytes then
  stored_slice, size, last, total = struct.unpack(">I6I6I6I6", header, 1)
end
if stored_slice ~= slice then return redis.error_reply("BADSTATE ring: want the slice it was written with") end
if size < 1 or size > 10000 then return redis.error_reply("BADSTATE ring: want 1..10000 slices") end

-- If the clock was behind when they were granted, the permits were counted in a later slice than that of taken. Every
-- window that reaches back to the slice of taken holds that later one too, so it gets back no more than was taken.
local slice_taken = math.floor(taken / slice)
local later = last - slice_taken
if later < 0 or later >= size or later > 1000 then return {0} end

-- The cells of slice_taken and of each later slice: in one piece or, across the ring's end, in two.
local start = header_bytes + 7 * (slice_taken % size)
local behind = math.min(later + 1, size - slice_taken % size)
local cells = redis.call("GETRANGE", ring, start, start + 7 * behind - 1)
if behind <= later then
  cells = cells .. redis.call("GETRANGE", ring, header_bytes, header_bytes + 7 * (later + 1 - behind) - 1)
end
if #cells ~= 7 * (later + 1) then
  return redis.error_reply("BADSTATE ring: want a total and a link for each slice")
end

-- The total before a slice is in the first 44 bits of its cell, so in 16ths of the first six bytes.
local function total_before(i)
  return math.floor(struct.unpack(">I6", cells, 7 * i + 1) / 16)
end
local after = total
if later > 0 then after = total_before(1) end
local returned = math.min(permits, (after - total_before(0)) % wrap)
if returned == 0 then return {0} end

-- The totals fall. The links stay: where nothing was granted, nothing was.
local lowered = {cells:sub(1, 7)}
for i = 1, later do
  local high, low = struct.unpack(">I6I1", cells, 7 * i + 1)
  lowered[i + 1] = struct.pack(">I6I1", (high - 16 * returned) % (16 * wrap), low)
end
cells = table.concat(lowered)
redis.call("SETRANGE", ring, start, string.sub(cells, 1, 7 * behind))
if behind <= later then redis.call("SETRANGE", ring, header_bytes, string.sub(cells, 7 * behind + 1)) end
redis.call("SETRANGE", ring, 18, struct.pack(">I6", (total - returned) % wrap))

return {math.floor(returned)} -- Lua 5.4 divides to floats, but a reply must hold integers
