-- Takes charge, rings, slices, sizes, now, and what ring_read gives. Charges every window, or none if Redis refuses
-- a command: first what changes no decision, then SETRANGE alone, which Redis refuses at once or not at all.
for i = 1, #slices do
  local gap = gaps[i]
  if gap > 0 then
    local slice, size = slices[i], sizes[i]
    -- 1 ms late, for servers whose clock for expiry is behind TIME. As text: Redis 7.2 prints some as 1e+9.
    local expires = math.ceil((times[i] - times[i] % slice + size * slice) / 1000) + 1
    if gap < size then
      redis.call("PEXPIREAT", rings[i], string.format("%.0f", expires))
    else
      local life = string.format("%.0f", expires - math.floor(now / 1000))
      redis.call("SET", rings[i], string.rep("\0", 19 + 6 * size), "PX", life)
    end
  end
end
for i = 1, #slices do
  local gap, size, oldest, count = gaps[i], sizes[i], oldests[i], counts[i]
  -- The gap: the slices that were skipped, and the current one, begin with the total so far. They are written in
  -- one piece or, across the end, in two.
  if gap > 0 and gap < size then
    local cell = struct.pack(">I6", (oldest + count) % wrap)
    local index = ((times[i] - times[i] % slices[i]) / slices[i] - gap + 1) % size
    local to_end = math.min(gap, size - index)
    redis.call("SETRANGE", rings[i], string.format("%d", 19 + 6 * index), string.rep(cell, to_end))
    if gap > to_end then redis.call("SETRANGE", rings[i], "19", string.rep(cell, gap - to_end)) end
  end
  count = count + charge
  if count > 10000000000000 then count = 10000000000000 end
  redis.call("SETRANGE", rings[i], "0", struct.pack(">I7I6I6", times[i], (oldest + count) % wrap, oldest))
  counts[i] = count
end
