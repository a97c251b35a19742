-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < min or n > max then return nil end
  return n
end
