-- Takes permits, reported, limits, and what ring_read gives. Gives granted, wait, remaining and reset_after.
local wanted, wait = math.max(permits, 1), 0 -- a look is told how long one permit would wait
local remaining, reset_after, reset_charged = 1000000000, 0, 0
for i = #slices, 1, -1 do
  local slice, size, count = slices[i], sizes[i], counts[i] + reported
  local room, left = limits[i] - wanted, limits[i] - count
  local begins = times[i] - times[i] % slice -- of the current slice
  local empty = begins + size * slice - now -- until it has left the window
  if left < remaining then remaining = left end
  if empty > reset_charged then reset_charged = empty end
  if empty - gaps[i] * slice > reset_after then reset_after = empty - gaps[i] * slice end
  if count > room and empty > wait then -- where another window waits longer, this one need not be searched
    -- From slice free on the window holds no more than room, from slice full on it does. The later the slice, the
    -- less: halving moves the two towards each other. The caller waits until free is the window's oldest slice.
    local current = begins / slice
    local full, free, last_charged = current - size + 1, current + 1, current - gaps[i]
    local total = oldests[i] + math.min(count, 10000000000000) -- with the report
    local cells = redis.call("GETRANGE", rings[i], "19", "-1")
    if #cells < 6 * size and gaps[i] < size then
      return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells")
    end
    while free - full > 1 do
      local middle, before = math.floor((full + free) / 2), oldests[i] + counts[i]
      if middle <= last_charged then before = struct.unpack(">I6", cells, 6 * (middle % size) + 1) end
      if (total - before) % wrap > room then full = middle else free = middle end
    end
    wait = math.max(wait, (free + size - 1) * slice - now)
  end
end
local granted = wait == 0 and permits or 0
