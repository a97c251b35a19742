-- FOR TESTS ONLY: the time is in sluice:test:clock
-- slice_ring_return v1
--
-- Gives back permits that slice_ring granted and that were not used. Name the windows of that grant: in each, the
-- slice of its moment is lowered by what goes back, but not below 0. Windows are taken in turn. One is passed over if
-- this slice had left it at its last charge, or if that charge came more than 1000 slices later, those of the windows
-- taken before included. Give back no more than was granted, once: more takes permits of others. After a lost reply, do
-- not send it again. A grant made while the clock was behind is counted in the slice of the last charge, and goes back
-- from the slice of its moment, which may hold fewer, and those of others.
--
-- GROUP[i]    window       1..8
-- KEYS[i]     ring_i       <prefix>:<limiter>:{<subject>}:sr1:<slice>x<size>
--
-- ARGV[1]     moment       time  0..9007199254740991     when they were granted: now in that reply
-- ARGV[2]     permits      int   1..1000000000           to give back
-- ARGV[2i+1]  slice_i      us    1000..86400000000       length of a slice
-- ARGV[2i+2]  size_i       int   1..1000                 number of its slices
--
-- REPLY[1]    returned     int   0..1000000000           the most that any one window gave back
--
-- ERROR       BADARG       an argument is wrong, or their number
-- ERROR       WRONGTYPE    a ring holds something other than a string
-- ERROR       BADSTATE     a ring ends before what the call reads of it
--
-- STATE       sr/1         slice_ring's: the total charged and the totals before later slices fall by what goes back;
--                          the time of the last charge and the expiry stay
-- COMPLEXITY  O(N)         N is the number of slices from the grant to the last charge, at most 1000 in all windows.
--                          Reads and writes their cells
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS < 1 or #KEYS > 8 then return redis.error_reply("BADARG KEYS: want 1 to 8") end
if #ARGV ~= 2 + 2 * #KEYS then
  return redis.error_reply("BADARG ARGV: want moment, permits, then slice, size for each window")
end
local rings = KEYS
local moment = integer(ARGV[1], 0, 9007199254740991)
if not moment then return redis.error_reply("BADARG moment: want 0..9007199254740991") end
local permits = integer(ARGV[2], 1, 1000000000)
if not permits then return redis.error_reply("BADARG permits: want 1..1000000000") end
local slices, sizes = {nil, nil}, {nil, nil} -- room for two: growing is slow
for i = 1, #KEYS do
  local slice_i = integer(ARGV[2 * i + 1], 1000, 86400000000)
  if not slice_i then return redis.error_reply("BADARG slice_" .. i .. ": want 1000..86400000000") end
  local size_i = integer(ARGV[2 * i + 2], 1, 1000)
  if not size_i then return redis.error_reply("BADARG size_" .. i .. ": want 1..1000") end
  slices[i], sizes[i] = slice_i, size_i
end
-- END

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

local surplus = permits
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
for i = 1, #writes, 3 do redis.call("SETRANGE", rings[writes[i]], writes[i + 1], writes[i + 2]) end

return {returned}
