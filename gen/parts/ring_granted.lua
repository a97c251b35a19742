remaining = remaining - granted
for i = 1, #counts do
  counts[i] = counts[i] + granted
  reset_after = math.max(reset_after, time - time % slices[i] + sizes[i] * slices[i] - now)
end
