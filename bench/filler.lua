-- Runs a script many times in one call, by a clock that the call sets. ARGV[1..3] are the first time, the step to the
-- next, and the number of runs; the rest are the script's arguments. It leaves what the script itself would leave.
local function decide(KEYS, ARGV, clock)
-- SCRIPT
end
local at, step, keys, args = tonumber(ARGV[1]), tonumber(ARGV[2]), {}, {unpack(ARGV, 4)}
for _ = 1, tonumber(ARGV[3]) do
  for i, arg in ipairs(ARGV) do
    if i > 3 then args[i - 3] = string.gsub(arg, "<id>", string.format("%016.0f", at)) end
  end
  for i, key in ipairs(KEYS) do keys[i] = string.gsub(key, "<id>", string.format("%016.0f", at)) end
  local clock = {string.format("%.0f", math.floor(at / 1000000)), string.format("%.0f", at % 1000000)}
  local reply = decide(keys, args, clock)
  if type(reply) == "table" and reply.err then return reply end
  at = at + step
end
return 1
