-- Takes id, mark, ttl, charge, before (the counts before the charge), rings, and what ring_read gives. Writes the id.
-- If that is refused, the totals fall back; the rings stay moved on to the current slices, which changes no count.
local marked = redis.pcall("SET", id, mark, "PX", string.format("%.0f", math.ceil(ttl / 1000) + 1))
for i = 1, marked.err and charge > 0 and #slices or 0 do
  redis.call("SETRANGE", rings[i], "7", struct.pack(">I6", (oldests[i] + before[i]) % wrap))
end
if marked.err then return marked end
