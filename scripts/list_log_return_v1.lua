-- list_log_return v1
--
-- Gives back permits of a list_log that were granted and certainly not used: it removes entries
-- of the time they were granted for. The limit holds for the permits that are not given back.
-- Entries of the same time are alike: giving back more than one was granted takes others' permits.
-- Send it once: after a lost reply it may have been done. Bookings behind the permits stay where
-- they are; only giving back the last booking opens the limiter sooner.
--
-- KEYS[1]     log          <prefix>:<limiter>:{<subject>}:ll1
--
-- ARGV[1]     due          time  0..9007199254740991     the time they were granted for: now + wait in list_log's reply
-- ARGV[2]     permits      int   1..1000                 to give back
--
-- REPLY[1]    returned     int   0..1000                 permits given back; 0 behind 1000 later entries
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    log holds something other than a list
-- ERROR       BADSTATE     log holds an entry that is not a time in microseconds
--
-- STATE       ll/1         list_log's: where the newest entry goes, the expiry falls by as much as the
--                          newest entry does
-- COMPLEXITY  O(log N)     LLEN, LINDEX by halving, LREM of at most 2000 entries
-- REDIS       5.0

local function integer(text, least, most)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < least or n > most then return nil end
  return n
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 2 then return redis.error_reply("BADARG ARGV: want 2") end
local log = KEYS[1]
local due = integer(ARGV[1], 0, 9007199254740991)
if not due then return redis.error_reply("BADARG due: want 0..9007199254740991") end
local permits = integer(ARGV[2], 1, 1000)
if not permits then return redis.error_reply("BADARG permits: want 1..1000") end

local length = redis.pcall("LLEN", log)
if type(length) == "table" then return length end

local unreadable
local function time_at(index)
  local time = tonumber((redis.call("LINDEX", log, index)))
  -- Up to 2^53 - 1 a Lua number is exact.
  if time and time >= 0 and time <= 9007199254740991 and time % 1 == 0 then return time end
  unreadable = true
  return due
end

-- Entries are in order. The first index from low on whose entry is later than a time; high if there is none.
local function first_later(time, low, high)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if time_at(middle) > time then high = middle else low = middle + 1 end
  end
  return low
end

local searched = 1000 -- entries behind the permits, at most
local oldest = math.max(length - searched, 0)
local stop = first_later(due, oldest, length)
if stop == oldest and oldest > 0 and time_at(oldest - 1) > due then stop = 0 end
local start = first_later(due - 1, math.max(stop - permits, 0), stop)
local returned = stop - start
local newest_falls = 0
if returned > 0 and stop == length and start > 0 then newest_falls = due - time_at(start - 1) end
if unreadable then return redis.error_reply("BADSTATE log: want times in microseconds") end
if returned == 0 then return {0} end

local entry = redis.call("LINDEX", log, start)
local expires_in = redis.call("PTTL", log)
redis.call("LREM", log, -returned, entry)
if newest_falls > 0 and expires_in > 0 then
  -- list_log infers the window of the newest entry from the expiry, so both fall together.
  local left = math.max(expires_in - math.floor(newest_falls / 1000), 1)
  -- As text, for Redis 7.2 gives round numbers an exponent.
  local kept = redis.pcall("PEXPIRE", log, string.format("%.0f", left))
  if kept ~= 1 then
    -- Refused, by an ACL say: put back what was removed, which stood at the end.
    local entries = {}
    for i = 1, returned do entries[i] = entry end
    redis.call("RPUSH", log, unpack(entries))
    return kept
  end
end

return {math.floor(returned)} -- Lua 5.4 divides to floats, but a reply must hold integers
