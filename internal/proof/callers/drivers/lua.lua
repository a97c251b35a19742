package.path = "./?.lua;" .. package.path
local limits = require("sluice").connect(arg[1], tonumber(arg[2]), arg[3])
local function bytes(hex)
  return (hex:gsub("-", ""):gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end))
end
for line in io.lines() do
  local name, count, rest = line:match("^(%S+) (%d+) ?(.*)$")
  local keys, args = {}, {}
  for word in rest:gmatch("%S+") do
    local list = #keys < tonumber(count) and keys or args
    list[#list + 1] = bytes(word)
  end
  local reply, failed = limits:call(name, keys, args)
  for i, value in ipairs(reply or {}) do reply[i] = string.format("%.0f", value) end
  print(reply and table.concat(reply, " ") or "!" .. failed)
  io.stdout:flush()
end
