local wanted = math.max(permits, 1) -- a look is told how long one permit would wait
local counts, remaining, wait, reset_after = {unpack(limits)}, limits[1], 0, 0 -- the counts come last to first
local missing, missing_cells = {}, 0 -- windows without a section
local rewrite = stored ~= #limits -- whether a grant writes more than the time and the total
local pages = {} -- what was read of the ring, by its place
for i = #limits, 1, -1 do -- mostly the longest comes last, and others are not searched that cannot wait longer
  local slice, size, room, count = slices[i], sizes[i], limits[i] - wanted, 0

  -- The window's own section is mostly at its place. A new window is counted in another's, up to a slice of that too
  -- early: in the shortest that is as long as the window, or else in the longest.
  local j, its_slice, its_size, shift, high = i
  if i <= stored then its_slice, its_size, shift, high = struct.unpack(">I5I2I6I6", header, 20 * i - 5) end
  local own = its_slice == slice and its_size == size
  if not own then
    rewrite = true
    local min_longer = math.huge
    for k = 1, stored do
      local other, cells = struct.unpack(">I5I2", header, 20 * k - 5)
      if other < 1000 or cells < 1 or cells > 10000 then
        return redis.error_reply("BADSTATE ring: want 1..10000 slices of 1 ms or more")
      end
      local longer = (cells - 1) * other - (size - 1) * slice
      if longer < 0 then longer = 1000000000000000 - longer end
      if other == slice and cells == size then longer, own = -1, true end
      if longer < min_longer then j, min_longer = k, longer end
    end
    if not own then missing[#missing + 1], missing_cells = i, missing_cells + size end
    if stored > 0 then its_slice, its_size, shift, high = struct.unpack(">I5I2I6I6", header, 20 * j - 5) end
  end

  if stored > 0 then
    -- The call fits if the window, which begins with slice start, holds no more than room. If it holds more, the
    -- caller waits until the window begins with free, the first slice from which on no more than room is held. The
    -- later the slice, the less is held from it on: from full it is too much, from free it is not, and the search
    -- moves the two towards each other until they are neighbours. The section knows the its_size slices before free.
    -- Nothing was granted after last: with its slice the window is empty. Where that is no longer than another window
    -- waits, the search may end early.
    local current, empty = (time - time % slice) / slice, last - last % slice + size * slice - now
    if empty > reset_after then reset_after = empty end
    local start, held_in_all = math.floor((current - size + 1) * slice / its_slice), (total + shift) % wrap
    local free = (last - last % its_slice) / its_slice + 1
    local full, probes = math.max(start, free - its_size) - 1, 0
    local page, page_index = "", its_size -- the cells that were read last, from index page_index on; none yet
    local known = own and current < free
    if known then -- no slice has begun since the last grant: the header has the cell of start
      page, page_index = string.sub(header, 20 * j + 8, 20 * j + 14), start % its_size
      count = (held_in_all - (high - high % 16) / 16) % wrap
    else
      rewrite = true
    end
    if empty > 0 and not (known and count <= room) then repeat
      -- Choose a slice between them. The first is start: what is held from it on is the count, and mostly it fits.
      -- The next three follow links, over slices without permits. Then the rest is halved.
      local probe = full + 1
      if probes > 3 then probe = math.floor((full + free) / 2) end

      -- Read its cell, with the seven behind it: where most slices hold permits, the next probes are among them.
      local index = probe % its_size
      local at = 7 * (index - page_index)
      if index < page_index or at + 7 > #page then
        -- MANY: the script for many keys counts work 32 here.
        page_index, at = index, 0
        local from = 14 + 20 * stored + 7 * index
        for k = 1, j - 1 do from = from + 7 * struct.unpack(">I2", header, 20 * k) end
        -- As text, because redis.call takes longer to print a number.
        page = redis.call("GETRANGE", ring, string.format("%d", from), string.format("%d", from + 55))
        pages[from] = page
        if #page < 7 then return redis.error_reply("BADSTATE ring: want a cell for each slice") end
      end
      -- The total before the slice is in the first 44 bits, the link in the last 12.
      local bits, low = struct.unpack(">I6I1", page, at + 1)
      local held = (held_in_all - (bits - bits % 16) / 16) % wrap -- from this slice on

      -- Move full or free to it.
      if probes == 0 then count = held end
      probes = probes + 1
      if held <= room then
        free = probe
      else
        -- The link names the first slice from this one on that has permits: from there on as much is held. A link is
        -- modulo 4096: a longer way comes out shorter by 4096 or 8192, which costs one or two more probes.
        full = probe + (bits % 16 * 256 + low - probe) % 4096
        if full >= free then return redis.error_reply("BADSTATE ring: want a cell for each slice") end
      end
    until free - full <= 1 or empty <= wait end
    if count > room then
      local begins = (math.ceil(free * its_slice / slice) + size - 1) * slice - now
      wait = math.max(wait, math.min(begins, empty))
    end
  end
  counts[i] = math.floor(count) -- under Lua 5.4 it may be a float, but a reply must hold integers
  if limits[i] - counts[i] < remaining then remaining = limits[i] - counts[i] end
end
