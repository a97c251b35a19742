-- The ring must be as long as the widest window, and permits must fit into every limit.
local widest = 1
for i = 1, #limits do
  if slices[i] > widest then widest = slices[i] end
  if permits > limits[i] then return redis.error_reply("BADARG permits: want up to every limit") end
end
