-- Only totals change, and not that of slice_taken itself, which counts what came before it. A link may now lead to
-- an empty slice: no slice before that has permits, so slice_ring only needs one more probe.
local lowered = {cells:sub(1, 7)}
for i = 1, later do
  local high, low = struct.unpack(">I6I1", cells, 7 * i + 1)
  lowered[i + 1] = struct.pack(">I6I1", (high - 16 * returned) % (16 * wrap), low)
end
cells = table.concat(lowered)
