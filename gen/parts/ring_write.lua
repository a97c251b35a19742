if not rewrite then
  redis.call("SETRANGE", ring, "1", struct.pack(">I7I6", time, (total + granted) % wrap))
else
  local cells = 0
  for j = 1, stored do
    local slice, size = struct.unpack(">I5I2", header, 20 * j - 5)
    cells = cells + size
    if slice < 1000 or size < 1 or cells > 10000 then
      return redis.error_reply("BADSTATE ring: want 1..10000 slices of 1 ms or more")
    end
  end
  -- A new window gets a section, as if all that it holds had been granted at the last grant: its total is what it
  -- holds, and 0 before every slice. Where it would be the ninth, or the cells more than 10000, the ring is made
  -- new, with only the windows of this call.
  if stored + #missing > 8 or cells + missing_cells > 10000 then
    stored, cells, missing = 0, 0, {}
    for i = #slices, 1, -1 do missing[#missing + 1] = i end
  end
  local sections, added, from = string.sub(header, 15, 14 + 20 * stored), {""}, 14 + 20 * (stored + #missing)
  for k = #missing, 1, -1 do -- the search began with the last window
    local slice, size, count = slices[missing[k]], sizes[missing[k]], counts[missing[k]]
    -- MANY: the script for many keys counts work size / 2 here.
    local link = (last - last % slice) / slice % 4096
    local cell = struct.pack(">I6I1", math.floor(link / 256), link % 256)
    sections = sections .. struct.pack(">I5I2I6", slice, size, (count - total) % wrap) .. cell
    added[#added + 1] = string.rep(cell, size)
  end

  -- The gaps: the slices that were skipped, and the current one, start from the total so far, and link to the
  -- current one: it is the next with permits. They are written in one piece or, across the section's end, in two.
  local text = struct.pack(">I1I7I6", stored + #missing, time, (total + granted) % wrap)
  local writes, expired, expires = {}, last, time
  for j = 1, stored + #missing do
    local slice, size, shift = struct.unpack(">I5I2I6", sections, 20 * j - 19)
    local oldest = string.sub(sections, 20 * j - 6) -- begins with the cell of the oldest slice of the window
    local last_slice, current = (last - last % slice) / slice, (time - time % slice) / slice
    if current > last_slice then
      local gap = math.min(current - last_slice, size)
      -- MANY: the script for many keys counts work gap / 2 here.
      local link, index = current % 4096, (last_slice + 1) % size
      local cell = struct.pack(">I6I1", (total + shift) % wrap * 16 + math.floor(link / 256), link % 256)
      local to_end = math.min(gap, size - index)
      if gap > to_end then writes[#writes + 1] = {from, string.rep(cell, gap - to_end)} end
      writes[#writes + 1] = {from + 7 * index, string.rep(cell, to_end)}
      if gap == size then
        oldest = cell
      elseif j <= stored then -- slice current - size + 1, at its place before the header grows
        local at = from - 20 * #missing + 7 * ((current + 1) % size)
        oldest = pages[at] or redis.call("GETRANGE", ring, string.format("%d", at), string.format("%d", at + 6))
        if #oldest < 7 then return redis.error_reply("BADSTATE ring: want a cell for each slice") end
      end
    end
    text = text .. struct.pack(">I5I2I6", slice, size, shift) .. string.sub(oldest, 1, 7)
    expired = math.max(expired, (last_slice + size) * slice)
    expires = math.max(expires, (current + size) * slice)
    from = from + 7 * size
  end
  -- 1 ms late, for servers whose clock for expiry is behind TIME.
  local expires_ms = math.ceil(expires / 1000) + 1
  if #missing > 0 then
    -- One write, so that no ring is left without its expiry. As text: Redis 7.2 prints round numbers as 1e+9.
    local at = 14 + 20 * stored
    if cells > 0 then
      added[1] = redis.call("GETRANGE", ring, string.format("%d", at), string.format("%d", at + 7 * cells - 1))
    end
    if #added[1] < 7 * cells then return redis.error_reply("BADSTATE ring: want a cell for each slice") end
    local pieces, first, next_write = {text}, #text, 1
    for i = 1, #added do
      local bytes, done = added[i], 0
      local behind = first + #bytes
      while next_write <= #writes and writes[next_write][1] < behind do
        local write = writes[next_write]
        pieces[#pieces + 1] = string.sub(bytes, done + 1, write[1] - first)
        pieces[#pieces + 1] = write[2]
        done, next_write = write[1] - first + #write[2], next_write + 1
      end
      pieces[#pieces + 1] = string.sub(bytes, done + 1)
      first = behind
    end
    redis.call("SET", ring, table.concat(pieces), "PX", string.format("%.0f", expires_ms - math.floor(now / 1000)))
  else
    -- The expiry first: it can be put back if the header is refused, as by an ACL. In two halves, seconds and
    -- milliseconds: half the time of %.0f, and %d may end at 2^31.
    local expired_ms, ms = math.ceil(expired / 1000) + 1, expires_ms % 1000
    if expires_ms > expired_ms then
      redis.call("PEXPIREAT", ring, string.format("%d%03d", (expires_ms - ms) / 1000, ms))
    end
    local written = redis.pcall("SETRANGE", ring, "0", text)
    if type(written) == "table" then
      redis.call("PEXPIREAT", ring, string.format("%.0f", expired_ms))
      return written
    end
    for i = 1, #writes do redis.call("SETRANGE", ring, string.format("%d", writes[i][1]), writes[i][2]) end
  end
end
