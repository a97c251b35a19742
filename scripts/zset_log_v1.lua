-- zset_log v1
--
-- The sliding-window log in a ZSET: any half-open interval of length window holds at most limit granted permits, to
-- the microsecond. Every request has an id, so a retry after a lost reply is not charged again, and zset_log_return
-- gives its permits back. An id is known until its permits leave the window; after that it is charged again. Make
-- ids yourself: an end user who chooses them is not limited. First come, first served: nobody gets a permit before
-- those who have booked ahead. A denied call writes nothing. Callers without ids use list_log; ZRANGE shows what is
-- stored. limit and window may change from call to call. A grant forgets what is older than its window, also if
-- Redis then refuses a command, so callers that alternate between two windows on one key get the longer limit again
-- and again: use two limiters, or slice_ring.
--
-- KEYS[1]     log          <prefix>:<limiter>:{<subject>}:zl1
--
-- ARGV[1]     limit        int   1..10000                permits in any window; for more use list_log
-- ARGV[2]     window       us    1000..31622400000000    length of the window
-- ARGV[3]     permits      int   0..500                  wanted now, up to limit; 0 only looks
-- ARGV[4]     max_wait     us    0..60000000             books up to this far ahead
-- ARGV[5]     id           str   0..128                  the caller's request id, without "|"; empty only to look
--
-- REPLY[1]    granted      int   0..500                  permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..10000                permits that could be granted now
-- REPLY[3]    wait         us    0..                     granted: act then; denied: they come free then; look: for 1
-- REPLY[4]    reset_after  us    0..                     until the log is empty
-- REPLY[5]    now          time  0..                     the server's clock at the decision
--
-- ERROR       BADARG       an argument is not in its range, or a live id asks for another number of permits
-- ERROR       WRONGTYPE    log holds something other than a sorted set
-- ERROR       BADSTATE     log holds a score that is not a time in microseconds
--
-- STATE       zl/1         one member a permit, its score the time it was granted for: <id>, then <id>||2,
--                          <id>||3, ... Give permits back with zset_log_return: after ZREM the expiry
--                          stays, and a wrong clock is noticed later. Void if the newest is more than a
--                          window and about 120 s ahead of the clock (the longer of the call's window and
--                          its own): a clock that is set may let one limit more through. Expires when the
--                          newest has left the window; set lazyfree-lazy-expire from 10000 members on
-- COMPLEXITY  O(log N)     TIME, ZCARD, ZSCORE, ZCOUNT; a grant removes up to permits + 100 expired members
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer from min to max that text spells, or nil. 2^53 - 1 has 16 digits. "0" and "1" need no pattern.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if n and n >= min and n <= max then return n end
end

if #KEYS ~= 1 then return redis.error_reply("BADARG KEYS: want 1") end
if #ARGV ~= 5 then return redis.error_reply("BADARG ARGV: want 5") end
local log = KEYS[1]
local limit = integer(ARGV[1], 1, 10000)
if not limit then return redis.error_reply("BADARG limit: want 1..10000") end
local window = integer(ARGV[2], 1000, 31622400000000)
if not window then return redis.error_reply("BADARG window: want 1000..31622400000000") end
local permits = integer(ARGV[3], 0, 500)
if not permits then return redis.error_reply("BADARG permits: want 0..500") end
local max_wait = integer(ARGV[4], 0, 60000000)
if not max_wait then return redis.error_reply("BADARG max_wait: want 0..60000000") end
local id = ARGV[5]
if #id > 128 or id:find("|") then return redis.error_reply("BADARG id: want 1 to 128 bytes without |") end
-- END

if id == "" and permits > 0 then return redis.error_reply("BADARG id: want 1 to 128 bytes without |") end
if permits > limit then return redis.error_reply("BADARG permits: want up to limit") end

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local window_start = now - window -- permits granted for this time or an earlier one have left the window

-- Arguments of commands: Redis prints numbers slowly, and 7.2 prints large round ones as 1e+15. So constants are
-- text, and times are printed in two halves, seconds and microseconds: "%d" may have 32 bits, .. keeps 14 digits, and
-- "%.0f" takes twice as long. Small numbers, such as an index, are passed as they are.

-- PART time_of_score: printed by make generate
-- Gives time_of_score. Redis 7.2 prints large round scores as 1e+15; miniredis, in gopher-lua, reads only 1.e+15.
local function time_of_score(score)
  local max_exact = 9007199254740991 -- 2^53 - 1: up to there a Lua number is exact
  local time = tonumber(score) or tonumber((score:gsub("e", ".e")))
  if time and time >= 0 and time <= max_exact and time % 1 == 0 then return time end
end
-- END
local unreadable -- a score is no time: an error before anything is written

local card = redis.pcall("ZCARD", log)
if type(card) == "table" then return card end

local wanted = permits
if wanted == 0 then wanted = 1 end -- a look is told how long one permit would wait
local due = now -- the time that the permits are granted for
local surplus = card + wanted - limit
if surplus > 0 then
  -- With the permits wanted the log has surplus members too many: the surplus-th oldest must have left the window. If
  -- it left long ago, as members that are not removed yet have, nobody waits for it.
  local rank = surplus == 1 and "0" or surplus - 1
  local blocker = time_of_score(redis.call("ZRANGE", log, rank, rank, "WITHSCORES")[2])
  if not blocker then
    unreadable = true
  elseif blocker + window > due then
    due = blocker + window
  end
end

-- held is the time that this id was granted for, if it asks again while that counts; score is the same as Redis has it.
local score, held
if permits > 0 and card > 0 then
  score = redis.call("ZSCORE", log, id)
  held = score and time_of_score(score)
  if score and not held then
    unreadable = true
  elseif score and held <= window_start then
    held = nil
  end
end

-- A first guess: due may still rise to newest, or fall back to now if no member counts.
local may_grant = permits > 0 and not held and due - now <= max_wait
local now_text = may_grant and clock[1] .. string.format("%06d", now % 1000000)

-- The newest member is needed, with one exception: a grant becomes the newest itself if all members lie before now,
-- which ZCOUNT shows. newest is nil then, and where the log is empty.
local newest
if card > 0 and not (may_grant and redis.call("ZCOUNT", log, now_text, "+inf") == 0) then
  newest = time_of_score(redis.call("ZRANGE", log, "-1", "-1", "WITHSCORES")[2])
  if not newest then unreadable = true end
end
if unreadable then return redis.error_reply("BADSTATE log: want scores in microseconds") end

-- The newest is the latest, because due is never before it: if it has left the window, all have. It may lie ahead of
-- now: it was booked (up to 60 s ahead), or the clock has stepped back. A step back of up to the window and 60 s is
-- believed, and callers wait behind newest. Further ahead, a wrong clock wrote it: the log is void.
local slack = 120000000 -- 60 s for a booking, 60 s for a step back
local void = newest and newest > now + window + slack
if void then
  -- The key expires when the window of the newest grant has passed, which may be longer than this call's.
  local newest_window = now + redis.call("PTTL", log) * 1000 - newest
  void = newest > now + newest_window + slack
end
local gone = 0 -- members that no longer count
if void or newest and newest <= window_start then
  newest, held, due, gone = nil, nil, now, card -- as an empty log; all members are to be removed
elseif newest and newest > due then
  due = newest
end

local granted = 0
if due - now <= max_wait then granted = permits end

-- live is for remaining. A denial where not even one permit is free needs no count: remaining is 0 without it.
local none_free = granted == 0 and not held and due > now and (wanted == 1 or newest > now)
local live = limit
if gone < card and not none_free then
  local us = window_start % 1000000
  gone = redis.call("ZCOUNT", log, "-inf", string.format("%d%06d", (window_start - us) / 1000000, us))
  live = card - gone
end

if held then
  -- The same request again: the same answer, and nothing is written. Members of one grant share a score; members with
  -- another score are left over from an earlier, larger grant. So this id was granted exactly permits if member number
  -- permits has the score and the next number has not.
  local last = permits == 1 and score or redis.call("ZSCORE", log, id .. "||" .. permits)
  if last ~= score or redis.call("ZSCORE", log, id .. "||" .. (permits + 1)) == score then
    return redis.error_reply("BADARG id: want the permits it was granted before")
  end
  granted, due = permits, math.max(held, now)
elseif granted > 0 then
  if gone > 0 and gone == card then
    redis.call("UNLINK", log)
  elseif gone > 0 then
    -- Remove more than are added, so that old members never pile up, but not all, so that a call's cost is bounded.
    redis.call("ZREMRANGEBYRANK", log, "0", math.min(gone, granted + 100) - 1)
  end
  local due_text = now_text -- nil if the grant was not expected above, because members did not count after all
  if not now_text or due > now then
    local us = due % 1000000
    due_text = string.format("%d%06d", (due - us) / 1000000, us)
  end
  local members = {due_text, id}
  for k = 2, granted do
    members[2 * k - 1], members[2 * k] = due_text, id .. "||" .. k
  end
  redis.call("ZADD", log, unpack(members))
  local expires = math.ceil((due + window) / 1000) + 1 -- in ms, 1 ms late: a server's clock for expiry may be behind
  local ms = expires % 1000
  local kept = redis.pcall("PEXPIREAT", log, string.format("%d%03d", (expires - ms) / 1000, ms))
  if type(kept) == "table" then
    -- Refused, for example by an ACL. A log without expiry must not stay: take back what was added. If that is refused
    -- too, redis.call raises the error.
    for i = 2, #members, 2 do redis.call("ZREM", log, members[i]) end
    return kept
  end
  newest, live = due, card - gone + granted
end

if not newest then return {0, limit, 0, 0, now} end
local remaining = 0
if newest <= now and live < limit then remaining = limit - live end
-- Under Lua 5.4 a score is a float, but a reply must hold integers.
return {granted, remaining, math.floor(due - now), math.floor(newest + window - now), now}
