local wanted = permits
if wanted == 0 then wanted = 1 end -- a look is told how long one permit would wait
local counts, wait_slices, remaining = {}, 0, limits[1]
local page, page_index = "", size -- the cells that were read last, from index page_index on; none yet
for i = 1, #limits do
  -- The call fits if the window, which begins with slice start, holds no more than room. If it holds more, the
  -- caller waits until the window begins with free, the first slice from which on no more than room is held. The
  -- later the slice, the less is held from it on: from full it is too much, from free it is not, and the search moves
  -- the two towards each other until they are neighbours. Slices that have left the ring hold nothing.
  local start, room = current - slices[i] + 1, limits[i] - wanted
  local full, free, count, probes = start - 1, last + 1, 0, 0
  if full < last - size then full = last - size end
  while not fresh and free - full > 1 do
    -- Choose a slice between them. The first is start: what is held from it on is the count, and mostly it fits.
    -- The next three follow links, over slices without permits. Then the rest is halved.
    local probe = full + 1
    if probes > 3 then probe = math.floor((full + free) / 2) end

    -- Read its cell, with the seven behind it: where most slices hold permits, the next probes are among them.
    local index = probe % size
    local at = 7 * (index - page_index)
    if index < page_index or at + 7 > #page then
      -- MANY: work 32.
      page_index, at = index, 0
      local from = 24 + 7 * index
      -- As text, because redis.call takes longer to print a number.
      page = redis.call("GETRANGE", ring, string.format("%d", from), string.format("%d", from + 55))
      if #page < 7 then return redis.error_reply("BADSTATE ring: want a total and a link for each slice") end
    end
    -- The total before the slice is in the first 44 bits, the link in the last 12.
    local high, low = struct.unpack(">I6I1", page, at + 1)
    local held = (total - (high - high % 16) / 16) % wrap -- from this slice on

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
  counts[i] = math.floor(count) -- under Lua 5.4 it may be a float, but a reply must hold integers
  if limits[i] - counts[i] < remaining then remaining = limits[i] - counts[i] end
  if count > room then wait_slices = math.max(wait_slices, free - start) end
end
