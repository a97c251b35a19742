-- token_bucket_set v1
--
-- Sets the rate, interval and scope of a token_bucket for every caller at once, to stay until they
-- are set again. Permits in use stay in use, at least for the interval they were granted under, and
-- count against the new rate from the next call on; under another scope another list counts. Also
-- repairs a config that cannot be read.
--
-- KEYS[1]     config       <prefix>:<limiter>:{<subject>}:tb1
--
-- ARGV[1]     rate         int   1..1000000              permits in any interval
-- ARGV[2]     interval     us    1000..31622400000000    until a permit comes back
-- ARGV[3]     scope        int   0..1                    0: all clients together, 1: each alone
--
-- REPLY[1]    rate         int   1..1000000              the rate in force
-- REPLY[2]    interval     us    1000..31622400000000    the interval in force
-- REPLY[3]    scope        int   0..1                    the scope in force
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    config holds something other than a hash
--
-- STATE       tb/1         config: a hash of rate, interval and scope; never expires
-- COMPLEXITY  O(1)         HMGET, HSET, PERSIST
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 3 then return redis.error_reply("BADARG ARGV: want 3") end
local config = KEYS[1]
local rate = integer(ARGV[1], 1, 1000000)
if not rate then return redis.error_reply("BADARG rate: want 1..1000000") end
local interval = integer(ARGV[2], 1000, 31622400000000)
if not interval then return redis.error_reply("BADARG interval: want 1000..31622400000000") end
local scope = integer(ARGV[3], 0, 1)
if not scope then return redis.error_reply("BADARG scope: want 0..1") end
-- END

local fields = {"rate", "interval", "scope"}
local old = redis.pcall("HMGET", config, unpack(fields)) -- to be put back if PERSIST is refused
if old.err then return old end
-- As text, because Redis 7.2 prints large round numbers as 1e+9.
redis.call("HSET", config, "rate", rate, "interval", string.format("%.0f", interval), "scope", scope)
local persisted = redis.pcall("PERSIST", config) -- HSET keeps the TTL that a grant has set
if type(persisted) == "table" then
  -- Refused, for example by an ACL: take back what was set. The first error is the one to report.
  for i, field in ipairs(fields) do
    if old[i] then
      redis.pcall("HSET", config, field, old[i])
    else
      redis.pcall("HDEL", config, field)
    end
  end
  return persisted
end

return {rate, interval, scope}
