remaining = remaining - granted
for i = 1, #counts do
  counts[i] = counts[i] + granted
  local empty = time - time % slices[i] + sizes[i] * slices[i] - now
  if empty > reset_after then reset_after = empty end
end
