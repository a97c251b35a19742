-- concurrency v1
--
-- At most limit slots held at once, each under a lease that ends by itself: a holder that dies frees
-- its slot within ttl. Asking again with a live id renews its lease and takes no second slot; renew 1
-- never takes one, so a lost slot is seen. A granted slot lasts at least ttl whatever is asked later,
-- unless it is released. Not first come, first served. A clock stepped back keeps slots longer by the
-- step, one stepped on ends leases early by it; UNLINK of the key frees all slots. Denials write nothing.
--
-- KEYS[1]     holders      <prefix>:<limiter>:{<subject>}:cc1
--
-- ARGV[1]     limit        int   1..10000                slots that may be held at once
-- ARGV[2]     ttl          us    1000..31622400000000    how long the lease lasts from now; a renewal never shortens it
-- ARGV[3]     renew        int   0..1                    0 takes a slot or renews; 1 only renews a live lease
-- ARGV[4]     id           str   0..128                  the holder's own, a new one for each slot; empty only looks
--
-- REPLY[1]    granted      int   0..1                    1: id holds a slot for at least ttl
-- REPLY[2]    remaining    int   0..10000                slots that are free now
-- REPLY[3]    wait         us    0..                     granted: 0; else a slot is free after this, if none is renewed
-- REPLY[4]    reset_after  us    0..                     until the last lease ends
-- REPLY[5]    now          time  0..                     the server's clock at the decision
--
-- ERROR       BADARG       an argument is not in its range
-- ERROR       WRONGTYPE    holders is something other than a sorted set
-- ERROR       BADSTATE     holders has a score that is not a time in microseconds
--
-- STATE       cc/1         one member a lease, the holder's id; its score is when the lease ends. ZREM of
--                          an id frees its slot. Expires with the last lease; set lazyfree-lazy-expire
--                          from 10000 leases on
-- COMPLEXITY  O(log N)     TIME, ZCOUNT, ZSCORE, ZRANGE; a grant removes up to 100 ended leases
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 4 then return redis.error_reply("BADARG ARGV: want 4") end
local holders = KEYS[1]
local limit = integer(ARGV[1], 1, 10000)
if not limit then return redis.error_reply("BADARG limit: want 1..10000") end
local ttl = integer(ARGV[2], 1000, 31622400000000)
if not ttl then return redis.error_reply("BADARG ttl: want 1000..31622400000000") end
local renew = integer(ARGV[3], 0, 1)
if not renew then return redis.error_reply("BADARG renew: want 0..1") end
local id = ARGV[4]
if #id > 128 then return redis.error_reply("BADARG id: want up to 128 bytes") end
-- END

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

-- PART time_of_score: printed by make generate
-- Gives time_of_score. Redis 7.2 prints large round scores as 1e+15; miniredis, in gopher-lua, reads only 1.e+15.
local function time_of_score(score)
  local max_exact = 9007199254740991 -- 2^53 - 1: up to there a Lua number is exact
  local time = tonumber(score) or tonumber((score:gsub("e", ".e")))
  if time and time >= 0 and time <= max_exact and time % 1 == 0 then return time end
end
-- END

-- A lease is live while its score is after now. Ended ones count for nothing, removed or not.
local live = redis.pcall("ZCOUNT", holders, "(" .. clock[1] .. string.format("%06d", now % 1000000), "+inf")
if type(live) == "table" then return live end

local score, held -- when the lease of this id ends, if it is live
local last = now -- when the last lease ends
if live > 0 then
  last = time_of_score(redis.call("ZRANGE", holders, "-1", "-1", "WITHSCORES")[2])
  if not last then return redis.error_reply("BADSTATE holders: want scores in microseconds") end
  score = id ~= "" and redis.call("ZSCORE", holders, id)
  held = score and time_of_score(score)
  if score and not held then return redis.error_reply("BADSTATE holders: want scores in microseconds") end
  if held and held <= now then held = nil end
end

-- A live id is renewed even if more are live than a lowered limit allows.
local granted, wait = 0, 0
if id ~= "" and (held or renew == 0 and live < limit) then
  granted = 1
elseif live >= limit then
  -- A slot is free when limit - 1 leases are left: when the limit-th from the end has ended.
  local blocker = last
  if limit > 1 then blocker = time_of_score(redis.call("ZRANGE", holders, -limit, -limit, "WITHSCORES")[2]) end
  if not blocker then return redis.error_reply("BADSTATE holders: want scores in microseconds") end
  wait = blocker - now
end

-- A lease never ends sooner than a granted reply has promised: that reply may be lost, and another be believed.
local ends = now + ttl
if granted == 1 and not (held and held >= ends) then
  local gone = redis.call("ZCARD", holders) - live
  -- Remove more than is added, so that ended leases never pile up, but not all, so that a call's cost is bounded.
  if gone > 0 then redis.call("ZREMRANGEBYRANK", holders, "0", math.min(gone, 100) - 1) end
  -- Times are printed in two halves, because "%d" may have 32 bits and Redis 7.2 prints large round numbers as 1e+15.
  local us = ends % 1000000
  redis.call("ZADD", holders, string.format("%d%06d", (ends - us) / 1000000, us), id)
  last = math.max(last, ends)
  local expires = math.ceil(last / 1000) + 1 -- in ms, 1 ms late: a server's clock for expiry may be behind
  local ms = expires % 1000
  local kept = redis.pcall("PEXPIREAT", holders, string.format("%d%03d", (expires - ms) / 1000, ms))
  if type(kept) == "table" then
    -- Refused, for example by an ACL. Leases that never expire must not stay: take back what was added. If that is
    -- refused too, redis.call raises the error.
    if held then redis.call("ZADD", holders, score, id) else redis.call("ZREM", holders, id) end
    return kept
  end
  if not held then live = live + 1 end
end

-- Under Lua 5.4 a score is a float, but a reply must hold integers.
return {granted, math.max(limit - live, 0), math.floor(wait), math.floor(last - now), now}
