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
