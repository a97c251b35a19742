-- Takes permits, reported, limits, rings, slices, sizes, now, struct and what ring_read gives. Gives granted, wait,
-- remaining, reset_after and reset_if_charged. The last window, mostly the longest, spares the others their search.
local wanted, wait = permits == 0 and 1 or permits, 0 -- a look is told how long one permit would wait
local remaining, reset_after, reset_if_charged, unpack_cell = 1000000000, 0, 0, struct.unpack
for i = #slices, 1, -1 do
  local slice, size, count = slices[i], sizes[i], counts[i] + reported
  local max, left = limits[i] - wanted, limits[i] - count -- max: that it may hold before a grant
  local current = (times[i] - times[i] % slice) / slice
  local empties_in = (current + size) * slice - now -- until the current slice has left
  if left < remaining then remaining = left end
  if empties_in > reset_if_charged then reset_if_charged = empties_in end
  if empties_in - gaps[i] * slice > reset_after then reset_after = empties_in - gaps[i] * slice end
  if count > max and empties_in > wait then -- else it is free, or empty before another one is free
    -- The caller waits until the window begins at free: a window from full on holds more than max, one from free on
    -- does not. The last charge may decide alone; else halving brings the two together.
    local total, full, free = oldests[i] + math.min(count, max_count), current, current + 1
    if total - oldests[i] - counts[i] <= max then -- else the report alone is too much
      local cells = redis.call("GETRANGE", rings[i], "19", "-1")
      if #cells < 6 * size then return redis.error_reply("BADSTATE ring_" .. i .. ": want 19 bytes and its cells") end
      full, free = current - size + 1, current - gaps[i] -- the oldest slice, and the one charged last
      local before = unpack_cell(">I6", cells, 6 * (free % size) + 1)
      if (total - before) % wrap > max then full, free = free, free + 1 end
      while free - full > 1 do
        local middle = (full + free - (full + free) % 2) / 2
        before = unpack_cell(">I6", cells, 6 * (middle % size) + 1)
        if (total - before) % wrap > max then full = middle else free = middle end
      end
    end
    wait = math.max(wait, (free + size - 1) * slice - now)
  end
end
local granted = wait == 0 and permits or 0
