local before = total
total = (total + granted) % wrap
if not moved then
  redis.call("SETRANGE", ring, "1", struct.pack(">I7I6", time, total))
else
  -- The gaps: the slices that were skipped, and the current one, start from the total so far, and link to the
  -- current one: it is the next with permits. They are written in one piece or, across the section's end, in two.
  local sections, writes, expired, expires, from = "", {}, 0, 0, 14 + 20 * stored
  for j = 1, stored do
    local slice, size, shift = struct.unpack(">I5I2I6", header, 20 * j - 5)
    if slice < 1000 or size < 1 or size > 10000 then
      return redis.error_reply("BADSTATE ring: want sections of 1..10000 slices")
    end
    local first = string.sub(header, 20 * j + 8, 20 * j + 14) -- the cell of the first slice of the window
    local last_slice, current = (last - last % slice) / slice, (time - time % slice) / slice
    local gap = math.min(current - last_slice, size)
    if gap > 0 then
      local link = current % 4096
      local cell = struct.pack(">I6I1", (before + shift) % wrap * 16 + math.floor(link / 256), link % 256)
      local index = (last_slice + 1) % size
      local to_end = math.min(gap, size - index)
      writes[#writes + 1] = {from + 7 * index, string.rep(cell, to_end)}
      if gap > to_end then writes[#writes + 1] = {from, string.rep(cell, gap - to_end)} end
      first = cell
      if gap < size then
        local at = from + 7 * ((current + 1) % size)
        first = redis.call("GETRANGE", ring, string.format("%d", at), string.format("%d", at + 6))
        if #first < 7 then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
      end
    end
    sections = sections .. struct.pack(">I5I2I6", slice, size, shift) .. first
    expired = math.max(expired, (last_slice + size) * slice)
    expires = math.max(expires, (current + size) * slice)
    from = from + 7 * size
  end
  if #missing == 0 then
    -- The expiry first: it can be put back if the header is refused, for example by an ACL. 1 ms late, for servers
    -- whose clock for expiry is behind. In two halves, seconds and milliseconds: half the time of %.0f.
    if expires > expired then
      local at = math.ceil(expires / 1000) + 1
      local ms = at % 1000
      redis.call("PEXPIREAT", ring, string.format("%d%03d", (at - ms) / 1000, ms))
    end
    local written = redis.pcall("SETRANGE", ring, "0", struct.pack(">I1I7I6", stored, time, total) .. sections)
    if type(written) == "table" then
      redis.call("PEXPIREAT", ring, string.format("%.0f", math.ceil(expired / 1000) + 1))
      return written
    end
    for i = 1, #writes do redis.call("SETRANGE", ring, string.format("%d", writes[i][1]), writes[i][2]) end
  else
    -- Sections for the new windows, as if all that each of them holds had been granted now. The others keep their
    -- cells; where they would be more than 8, all windows begin in this way and those that were not asked for go.
    local cells = ""
    if stored + #missing > 8 then
      stored, sections, expires, missing = 0, "", 0, {}
      for i = 1, #slices do missing[i] = #slices + 1 - i end
    end
    if stored > 0 then
      local before_cells = 14 + 20 * stored
      cells = redis.call("GETRANGE", ring, string.format("%d", before_cells), string.format("%d", from - 1))
      if #cells < from - before_cells then
        return redis.error_reply("BADSTATE ring: want a total and a link for each slice")
      end
      for i = 1, #writes do
        local at, text = writes[i][1] - before_cells, writes[i][2]
        cells = string.sub(cells, 1, at) .. text .. string.sub(cells, at + #text + 1)
      end
    end
    for k = #missing, 1, -1 do -- the search began with the last window
      local slice, size, count = slices[missing[k]], sizes[missing[k]], counts[missing[k]]
      local current = (time - time % slice) / slice
      local link = current % 4096
      local cell = struct.pack(">I6I1", math.floor(link / 256), link % 256)
      sections = sections .. struct.pack(">I5I2I6", slice, size, (count - before) % wrap) .. cell
      cells = cells .. string.rep(cell, size)
      expires = math.max(expires, (current + size) * slice)
    end
    -- One write, so that no ring is left without its expiry. As text: Redis 7.2 prints round numbers as 1e+9.
    local px = math.ceil(expires / 1000) + 1 - math.floor(now / 1000)
    local header_bytes = struct.pack(">I1I7I6", stored + #missing, time, total)
    redis.call("SET", ring, header_bytes .. sections .. cells, "PX", string.format("%.0f", px))
  end
end
