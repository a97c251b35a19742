-- The clock may have stepped back: then it stands still at the last grant until it has caught up. A step of up to the
-- longest window, of the ring or of the call, and 60 s is believed. Further ahead, a wrong clock wrote the ring, and
-- nothing in it counts.
local time = now
if stored > 0 and last > now then
  local ahead, wrong = last - now - 60000000, true
  for i = 1, #slices do wrong = wrong and ahead > sizes[i] * slices[i] end
  for j = 1, stored do
    local slice, size = struct.unpack(">I5I2", header, 20 * j - 5)
    wrong = wrong and ahead > size * slice
  end
  if wrong then stored = 0 else time = last end
end
if stored == 0 then last = now end
