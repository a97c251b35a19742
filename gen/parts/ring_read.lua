local header = redis.pcall("GETRANGE", ring, "0", "23") -- the ring itself may have 70 KB
if header.err then return header end
local current = (now - now % slice) / slice -- the number of the slice that now is in
local size, last, total = widest, current, 0
local fresh = true -- nothing stored counts: the first grant makes a new ring
if header ~= "" or redis.call("EXISTS", ring) == 1 then
  local stored_slice, stored_size, stored_last, stored_total
  if #header == 24 then
    stored_slice, stored_size, stored_last, stored_total = struct.unpack(">I6I6I6I6", header, 1)
  end
  if stored_slice ~= slice then
    return redis.error_reply("BADSTATE ring: want the slice it was written with")
  end
  if stored_size < 1 or stored_size > 10000 then
    return redis.error_reply("BADSTATE ring: want 1..10000 slices")
  end
  -- If the last slice has left the ring, all have. It may lie ahead of now if the clock has stepped back. A step back
  -- of up to the widest window, of the ring or of the call, and slack is believed. Further ahead, a wrong clock wrote
  -- it.
  local slack = 60000000 -- 60 s
  local ahead = stored_last * slice - now - slack
  if current - stored_last < stored_size and (ahead <= stored_size * slice or ahead <= widest * slice) then
    fresh = false
    size, last, total = stored_size, stored_last, stored_total
    -- The clock has stepped back: permits count in the last slice until it has caught up.
    if current < last then current = last end
  end
end

-- Totals wrap at 2^44: only their differences count, and 10000 slices of 10^9 permits stay below it.
local wrap = 17592186044416
