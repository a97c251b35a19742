-- Takes rings, slices, sizes, now. Gives for each window: its time, the slices since the last charge (gaps), the
-- total before its oldest slice (oldests) and what it holds (counts). Every ring is read before one is written.
local wrap = 281474976710656 -- 2^48: of totals, only the differences count
local times, gaps, oldests, counts = {nil, nil}, {nil, nil}, {nil, nil}, {nil, nil}
for i = 1, #slices do
  local slice, size = slices[i], sizes[i]
  local header = redis.pcall("GETRANGE", rings[i], "0", "18")
  if header.err then return header end
  local last, total, oldest = now - size * slice, 0, 0 -- no ring: as if all had just left the window
  if header ~= "" then
    if #header < 19 then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
    last, total, oldest = struct.unpack(">I7I6I6", header, 1)
  end
  -- A clock that stepped back stands still at the last charge, unless that was written by a clock that was wrong.
  local time = last > now and last or now
  if time - now > size * slice + 60000000 then time, last = now, now - size * slice end
  local current = (time - time % slice) / slice
  local gap = current - (last - last % slice) / slice
  if gap >= size then -- all has left the window
    total, oldest = 0, 0
  elseif gap > 0 then -- the window has moved: its oldest slice is current - size + 1
    local at = 19 + 6 * ((current + 1) % size)
    local cell = redis.call("GETRANGE", rings[i], string.format("%d", at), string.format("%d", at + 5))
    if #cell < 6 then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
    oldest = struct.unpack(">I6", cell, 1)
  end
  local count = math.floor((total - oldest) % wrap) -- under Lua 5.4 a float; a reply wants an integer
  times[i], gaps[i], oldests[i], counts[i] = time, gap, oldest, count
end
