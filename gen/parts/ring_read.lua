-- Takes rings, slices, sizes, now and struct. Gives times, gaps, oldests, counts, wrap and max_count. For each
-- window: its time, the slices since the last charge (up to size; math.huge if there is no ring), the total before
-- its oldest slice, and what it holds. Totals wrap: only their differences count. All is read before any is written.
local wrap, max_count, step_back = 281474976710656, 10000000000000, 60000000 -- 2^48, 10^13, 60 s
local times, gaps, oldests, counts = {nil, nil}, {nil, nil}, {nil, nil}, {nil, nil}
for i = 1, #slices do
  local slice, size = slices[i], sizes[i]
  local header = redis.pcall("GETRANGE", rings[i], "0", "18")
  if type(header) == "table" then return header end
  local last, total, oldest = now - size * slice -- no ring: all has left
  if header ~= "" then
    if #header < 19 then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
    last, total, oldest = struct.unpack(">I7I6I6", header, 1)
  end
  -- A clock that stepped back stands still at the last charge, unless that was written by a clock that was wrong.
  local time = last > now and last or now
  if time - now > size * slice + step_back then time, last = now, now - size * slice end
  local current = (time - time % slice) / slice
  local gap = current - (last - last % slice) / slice
  if gap >= size then -- all has left the window
    gap, total, oldest = header == "" and math.huge or size, 0, 0
  elseif gap > 0 then -- the window has moved: its oldest slice is current - size + 1
    local at = 19 + 6 * ((current + 1) % size)
    local cell = redis.call("GETRANGE", rings[i], string.format("%d", at), string.format("%d", at + 5))
    if #cell < 6 then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
    oldest = struct.unpack(">I6", cell, 1)
  end
  local count = math.floor((total - oldest) % wrap) -- under Lua 5.4 (Dragonfly) a float
  times[i], gaps[i], oldests[i], counts[i] = time, gap, oldest, count
end
