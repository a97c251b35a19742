-- list_log_return v1
--
-- Gives back permits of a list_log that were granted and certainly not used: it removes entries of
-- the time they were granted for. The limit holds for the permits that are not given back. Entries
-- of the same time are alike: whoever gives back more than they were granted takes permits of
-- others. After a lost reply, do not send it again. Later bookings stay where they are.
--
-- KEYS[1]     log          <prefix>:<limiter>:{<subject>}:ll1
--
-- ARGV[1]     moment       time  0..9007199254740991     the time they were granted for: now + wait in list_log's reply
-- ARGV[2]     permits      int   1..1000                 to give back
--
-- REPLY[1]    returned     int   0..1000                 entries removed, also of permits that had left the window;
--                                                        0 if there are more than 1000 later entries
--
-- ERROR       BADARG       an argument is not an integer in its range
-- ERROR       WRONGTYPE    log holds something other than a list
-- ERROR       BADSTATE     log holds an entry that is not a time in microseconds
--
-- STATE       ll/1         list_log's: where the newest entry goes, the expiry falls by as much as the
--                          newest entry does; where all go, the key is gone
-- COMPLEXITY  O(log N)     LLEN, LINDEX, LREM of up to permits among the last 2000 entries
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 2 then return redis.error_reply("BADARG ARGV: want 2") end
local log = KEYS[1]
local moment = integer(ARGV[1], 0, 9007199254740991)
if not moment then return redis.error_reply("BADARG moment: want 0..9007199254740991") end
local permits = integer(ARGV[2], 1, 1000)
if not permits then return redis.error_reply("BADARG permits: want 1..1000") end
-- END

local length = redis.pcall("LLEN", log) -- pcall, so that WRONGTYPE reaches the caller as it is
if type(length) == "table" then return length end

local unreadable -- an entry is no time: an error before anything is written
local function time_from_end(n)
  local max_exact = 9007199254740991 -- 2^53 - 1: up to there a Lua number is exact
  local time = tonumber((redis.call("LINDEX", log, -n)))
  if time and time >= 0 and time <= max_exact and time % 1 == 0 then return time end
  unreadable = true
  return moment
end

-- How many entries are later than a time: min to max. Entries are in order, so it halves.
local function later_than(time, min, max)
  while min < max do
    local middle = math.ceil((min + max) / 2)
    if time_from_end(middle) > time then min = middle else max = middle - 1 end
  end
  return min
end

-- Most permits are given back soon, so steps that double look for the entries from the end on.
local step = 1
while step < 1024 and step <= length and time_from_end(step) > moment do step = step * 2 end
local later = later_than(moment, math.floor(step / 2), math.min(step - 1, length))
local found, fall = 0, 0
if later <= 1000 then
  found = later_than(moment - 1, later, math.min(later + permits, length)) - later
  if found > 0 and later == 0 and found < length then
    fall = math.floor((moment - time_from_end(found + 1)) / 1000) -- of the newest entry, in ms
  end
end
if unreadable then return redis.error_reply("BADSTATE log: want times in microseconds") end
if found == 0 then return {0} end

-- list_log infers the window of the newest entry from the expiry, so both fall together. The expiry falls first: if
-- LREM is then refused, for example by an ACL, the right to put it back is there. Numbers of nine digits or more are
-- passed as text, because Redis 7.2 prints large round ones as 1e+10.
local expires_in -- in ms, where the expiry falls
if fall > 0 then expires_in = redis.call("PTTL", log) end
if expires_in and expires_in < 1 then expires_in = nil end -- an operator made it stay, or it is overdue
if expires_in then redis.call("PEXPIRE", log, string.format("%.0f", math.max(expires_in - fall, 1))) end
local entry = redis.call("LINDEX", log, -later - found) -- as it is written, for LREM compares texts
local returned = redis.pcall("LREM", log, -found, entry)
if returned ~= found and expires_in then redis.call("PEXPIRE", log, string.format("%.0f", expires_in)) end
if type(returned) == "table" then return returned end

return {returned}
