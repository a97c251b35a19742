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
