local host, port = os.getenv("SLUICE_REDIS"):match("redis://([^:]+):(%d+)")
local limits = require("sluice").connect(host, tonumber(port), os.getenv("SLUICE_SCRIPTS"))
local function words(list)
  local found = {}
  for hex in list:gmatch('"(%x*)"') do
    found[#found + 1] = hex:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end)
  end
  return found
end
for line in io.lines() do
  local id, name, keys, args = line:match('"id":(%d+),"script":"([%w_]+)".*"keys":(%b[]),"args":(%b[])')
  local reply, failed, kind = limits:call(name, words(keys), words(args))
  if reply then
    for i, value in ipairs(reply) do reply[i] = string.format("%.0f", value) end
    local granted = tostring(tonumber(reply[1]) > 0)
    print(('{"id":%s,"granted":%s,"reply":[%s]}'):format(id, granted, table.concat(reply, ",")))
  else
    print(('{"id":%s,"error":"%s","kind":"%s"}'):format(id, (failed:gsub('["\\\r\n]', " ")), kind))
  end
  io.stdout:flush()
end
