local cells = 0
for i = 1, #sizes do cells = cells + sizes[i] end
if cells > 10000 then return redis.error_reply("BADARG ARGV: want up to 10000 slices together") end
