-- Takes charge, rings, slices, sizes, struct and what ring_read gives. Charges every window, or none if Redis
-- refuses a command: first what changes no decision, then SETRANGE alone. Of that the first is refused, or none:
-- rights are the same for all, and memory counts only before a script's first write.
for i = 1, #slices do
  local gap, slice, size = gaps[i], slices[i], sizes[i]
  if gap > 0 then
    if gap > size then -- no ring: Redis puts zeros before the last byte
      redis.call("SETRANGE", rings[i], string.format("%d", 18 + 6 * size), "\0")
    end
    -- 1 ms late: the clock of expiry may be behind TIME. As text: Redis 7.2 prints some numbers as 1e+9.
    local expires_ms = math.ceil((times[i] - times[i] % slice + size * slice) / 1000) + 1
    redis.call("PEXPIREAT", rings[i], string.format("%.0f", expires_ms))
  end
end
for i = 1, #slices do
  local gap, size, oldest, count = gaps[i], sizes[i], oldests[i], counts[i]
  -- Each slice of the gap, up to the current one, begins with the total so far: a piece, or two across the end.
  if gap > 0 and gap <= size then
    local cell = struct.pack(">I6", (oldest + count) % wrap)
    local index = ((times[i] - times[i] % slices[i]) / slices[i] - gap + 1) % size
    local to_end = math.min(gap, size - index)
    redis.call("SETRANGE", rings[i], string.format("%d", 19 + 6 * index), string.rep(cell, to_end))
    if gap > to_end then redis.call("SETRANGE", rings[i], "19", string.rep(cell, gap - to_end)) end
  end
  count = count + charge
  if count > max_count then count = max_count end
  counts[i] = count
  redis.call("SETRANGE", rings[i], "0", struct.pack(">I7I6I6", times[i], (oldest + count) % wrap, oldest))
end
