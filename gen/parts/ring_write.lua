local cell
if fresh or current > last then
  local link = current % 4096 -- of the skipped slices too: the current one is the next with permits
  cell = struct.pack(">I6I1", total * 16 + math.floor(link / 256), link % 256)
end
total = (total + granted) % wrap
if fresh or widest > size then
  -- A new or a longer ring is one write, so that none is left without its expiry.
  local cells
  if fresh then
    cells = string.rep(cell, size)
  else
    -- Longer: lay the cells out oldest first, put copies of the oldest before them, drop as many as slices have
    -- begun and add those at the end; then turn them, so that slice s is at index s % widest again.
    cells = redis.call("GETRANGE", ring, "24", string.format("%d", 23 + 7 * size))
    if #cells ~= 7 * size then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
    local from = 7 * ((last + 1) % size)
    local oldest = string.sub(cells, from + 1, from + 7)
    cells = string.rep(oldest, widest - size) .. string.sub(cells, from + 1) .. string.sub(cells, 1, from)
    if current > last then
      cells = string.sub(cells, 7 * (current - last) + 1) .. string.rep(cell, current - last)
    end
    local turn = 7 * (widest - (current + 1) % widest)
    cells = string.sub(cells, turn + 1) .. string.sub(cells, 1, turn)
    size = widest
  end
  local state = struct.pack(">I6I6I6I6", slice, size, current, total) .. cells
  -- It expires 1 ms late, for servers whose clock for expiry is behind. As text, because Redis 7.2 prints large
  -- round numbers as 1e+9.
  local expires = math.ceil((current + size) * slice / 1000) + 1
  redis.call("SET", ring, state, "PX", string.format("%.0f", expires - math.floor(now / 1000)))
else
  if current > last then
    -- The expiry first: it can be put back if the cells are refused, for example by an ACL; cells that are
    -- overwritten cannot. In two halves, seconds and milliseconds: half the time of %.0f. (%d may have 32 bits.)
    local expires = math.ceil((current + size) * slice / 1000) + 1
    local ms = expires % 1000
    redis.call("PEXPIREAT", ring, string.format("%d%03d", (expires - ms) / 1000, ms))
    -- The gap: the slices that were skipped, and the current one, start from the total so far. They are written in
    -- one piece or, across the ring's end, in two.
    local gap = current - last
    local index = (last + 1) % size
    local to_end = math.min(gap, size - index)
    local written = redis.pcall("SETRANGE", ring, string.format("%d", 24 + 7 * index), string.rep(cell, to_end))
    if type(written) == "table" then
      redis.call("PEXPIREAT", ring, string.format("%.0f", math.ceil((last + size) * slice / 1000) + 1))
      return written
    end
    if gap > to_end then redis.call("SETRANGE", ring, "24", string.rep(cell, gap - to_end)) end
  end
  redis.call("SETRANGE", ring, "12", struct.pack(">I6I6", current, total)) -- last and total, in the header
end
