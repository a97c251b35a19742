-- The expiry first: it can be put back if the header is refused, for example by an ACL. 1 ms late, for servers
-- whose clock for expiry is behind. In two halves, seconds and milliseconds: half the time of %.0f.
if expires > expired then
  local at = math.ceil(expires / 1000) + 1
  local ms = at % 1000
  redis.call("PEXPIREAT", ring, string.format("%d%03d", (at - ms) / 1000, ms))
end
local written = redis.pcall("SETRANGE", ring, "0", struct.pack(">I1I7I6", stored, time, total) .. sections)
if type(written) == "table" then
  redis.call("PEXPIREAT", ring, string.format("%.0f", math.ceil(expired / 1000) + 1))
  return written
end
for i = 1, #writes do redis.call("SETRANGE", ring, string.format("%d", writes[i][1]), writes[i][2]) end
