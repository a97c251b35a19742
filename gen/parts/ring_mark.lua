-- Takes id, mark, ttl, counts_before, rings, struct and what ring_read gives. Writes the id. If that is refused, the
-- totals fall back; the rings stay moved on to the current slices, which changes no count.
local marked = redis.pcall("SET", id, mark, "PX", string.format("%.0f", math.ceil(ttl / 1000) + 1))
if marked.err then
  for i = 1, #counts_before do
    redis.call("SETRANGE", rings[i], "7", struct.pack(">I6", (oldests[i] + counts_before[i]) % wrap))
  end
  return marked
end
