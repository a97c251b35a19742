for i = 1, #limits do
  if permits > limits[i] then return redis.error_reply("BADARG permits: want up to every limit") end
end
