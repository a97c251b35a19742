local wanted = permits
if wanted == 0 then wanted = 1 end -- a look is told how long one permit would wait
local counts, remaining, wait, reset_after = {unpack(limits)}, limits[1], 0, 0
local moved, begun = stored ~= #limits, 0 -- whether more changes than the last grant, and by how many cells
local missing, pages = {}, {} -- the windows that have no section; what was read of the ring, by its place
for i = #limits, 1, -1 do -- mostly the longest comes last, and others are not searched that cannot wait longer
  local slice, size, room, count = slices[i], sizes[i], limits[i] - wanted, 0

  -- The window's own section is mostly at its place. A new window is counted in another's, up to a slice of that too
  -- early: in the shortest that is as long as the window, or else in the longest.
  local j, own, its_slice, its_size, shift, high, low = i, true
  if i <= stored then its_slice, its_size, shift, high, low = struct.unpack(">I5I2I6I6I1", header, 20 * i - 5) end
  if its_slice ~= slice or its_size ~= size then
    local least = math.huge
    for k = 1, stored do
      local other, cells = struct.unpack(">I5I2", header, 20 * k - 5)
      if other < 1000 or cells < 1 or cells > 10000 then
        return redis.error_reply("BADSTATE ring: want sections of 1..10000 slices")
      end
      local longer = cells * other - size * slice
      if longer < 0 then longer = 1000000000000000 - longer end
      if other ~= slice then longer = longer + 1 end
      if longer < least then j, least = k, longer end
    end
    moved, own = true, least == 0
    if stored > 0 then its_slice, its_size, shift, high, low = struct.unpack(">I5I2I6I6I1", header, 20 * j - 5) end
    if not own then missing[#missing + 1], begun = i, begun + size end
  end

  if stored > 0 then
    -- The call fits if the window, which begins with slice start, holds no more than room. If it holds more, the
    -- caller waits until the window begins with free, the first slice from which on no more than room is held. The
    -- later the slice, the less is held from it on: from full it is too much, from free it is not, and the search
    -- moves the two towards each other until they are neighbours. Slices that have left the section hold nothing.
    local current, last_slice = (time - time % slice) / slice, (last - last % its_slice) / its_slice
    local start, held_in_all = current - size + 1, (total + shift) % wrap
    if not own then start = math.floor(start * slice / its_slice) end
    local full, free, probes = start - 1, last_slice + 1, 0
    if full < last_slice - its_size then full = last_slice - its_size end
    local after_last = free
    if not own then after_last = math.ceil(free * its_slice / slice) end
    local empty = (after_last + size - 1) * slice - now
    if empty > reset_after then reset_after = empty end
    local page, page_index = "", its_size -- the cells that were read last, from index page_index on; none yet
    if own and current == last_slice then
      -- No slice has begun since the last grant: the header has the cell of start.
      page, page_index = string.sub(header, 20 * j + 8, 20 * j + 14), start % its_size
      count = (held_in_all - (high - high % 16) / 16) % wrap
      if count <= room or empty <= wait then full = last_slice end
    elseif own then
      moved = true
    end
    while free - full > 1 do
      -- Choose a slice between them. The first is start: what is held from it on is the count, and mostly it fits.
      -- The next three follow links, over slices without permits. Then the rest is halved.
      local probe = full + 1
      if probes > 3 then probe = math.floor((full + free) / 2) end

      -- Read its cell, with the seven behind it: where most slices hold permits, the next probes are among them.
      local index = probe % its_size
      local at = 7 * (index - page_index)
      if index < page_index or at + 7 > #page then
        -- MANY: work 32.
        page_index, at = index, 0
        local from = 14 + 20 * stored + 7 * index
        for k = 1, j - 1 do from = from + 7 * struct.unpack(">I2", header, 20 * k) end
        -- As text, because redis.call takes longer to print a number.
        page = redis.call("GETRANGE", ring, string.format("%d", from), string.format("%d", from + 55))
        pages[from] = page
        if #page < 7 then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
      end
      -- The total before the slice is in the first 44 bits, the link in the last 12.
      high, low = struct.unpack(">I6I1", page, at + 1)
      local held = (held_in_all - (high - high % 16) / 16) % wrap -- from this slice on

      -- Move full or free to it.
      if probes == 0 then count = held end
      probes = probes + 1
      if held <= room then
        free = probe
      else
        -- The link names the first slice from this one on that has permits: from there on as much is held. A link is
        -- modulo 4096: a longer way comes out shorter by 4096 or 8192, which costs one more probe.
        full = probe + (high % 16 * 256 + low - probe) % 4096
        if full >= free then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
      end
    end
    if count > room then
      if not own then free = math.ceil(free * its_slice / slice) end
      local begins = (free + size - 1) * slice - now
      if begins > wait then wait = begins end
    end
  end
  counts[i] = math.floor(count) -- under Lua 5.4 it may be a float, but a reply must hold integers
  if limits[i] - counts[i] < remaining then remaining = limits[i] - counts[i] end
end
