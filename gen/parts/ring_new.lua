local pieces = {cells}
for k = #missing, 1, -1 do -- the search began with the last window
  local slice, size, count = slices[missing[k]], sizes[missing[k]], counts[missing[k]]
  local current = (time - time % slice) / slice
  local link = current % 4096
  local cell = struct.pack(">I6I1", math.floor(link / 256), link % 256)
  sections = sections .. struct.pack(">I5I2I6", slice, size, (count - before) % wrap) .. cell
  pieces[#pieces + 1] = string.rep(cell, size)
  expires = math.max(expires, (current + size) * slice)
end
-- One write, so that no ring is left without its expiry. As text: Redis 7.2 prints round numbers as 1e+9.
local px = math.ceil(expires / 1000) + 1 - math.floor(now / 1000)
local header_bytes = struct.pack(">I1I7I6", stored + #missing, time, total)
redis.call("SET", ring, header_bytes .. sections .. table.concat(pieces), "PX", string.format("%.0f", px))
