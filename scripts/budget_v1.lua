-- budget v1
--
-- A charge that is known only afterwards: takes an estimate from a slice_ring under an id, and
-- budget_settle corrects it. It decides as slice_ring does, on the same ring. It denies while a window
-- is full, or over its limit because settling charged more. Asked again with the id and the same
-- permits before it is settled, it grants them again and charges nothing. If an id expires before it is
-- settled, its estimate stays charged. Take ids of your own making: an end user who chooses them is not
-- limited.
--
-- KEYS[1]     ring         <prefix>:<limiter>:{<subject>}:sr1
-- KEYS[2]     id           <prefix>:<limiter>:{<subject>}:bg1:<id>
--
-- GROUP[i]    window       1..8
-- ARGV[1]     ttl          us    1000..31622400000000    how long the id is known
-- ARGV[2]     permits      int   0..1000000000           the estimate, up to every limit; 0 only looks: id is not read
-- ARGV[3i]    slice_i      us    1000..86400000000       length of a slice
-- ARGV[3i+1]  size_i       int   1..10000                number of its slices; up to 10000 in all windows
-- ARGV[3i+2]  limit_i      int   1..1000000000           permits in the window
--
-- REPLY[1]    granted      int   0..1000000000           permits granted: 0, or all that were asked for
-- REPLY[2]    remaining    int   0..1000000000           permits that could be granted now
-- REPLY[3]    wait         us    0..                     until they come free (a look: 1 permit), if no one else asks
-- REPLY[4]    reset_after  us    0..                     until all windows are empty
-- REPLY[5]    now          time  0..                     the server's clock at the decision
-- REPLY[5+i]  count_i      int   0..                     permits in the window now; more than limit_i is a debt
--
-- ERROR       BADARG       an argument is not an integer in its range, or the id is settled or has other permits
-- ERROR       WRONGTYPE    ring or id holds something other than a string
-- ERROR       BADSTATE     ring or id holds a string that is not in the layout sr/1 or bg/1
--
-- STATE       sr/1         slice_ring's
-- STATE       bg/1         11 bytes: the time of the charge, in 7; twice the permits charged, and one more where they
--                          are settled, in 4. Big-endian. Expires after ttl
-- COMPLEXITY  O(W log N)   as slice_ring; one GET, and a grant one SET more
-- REDIS       5.0

-- PART arguments: printed by make generate
-- The integer that text spells, or nil. "0" and "1" are the most frequent and skip the pattern; 2^53 - 1 has 16 digits.
local function integer(text, min, max)
  local n = text == "0" and 0 or text == "1" and 1 or #text <= 16 and text:find("^%d+$") and 0 + text
  if not n or n < min or n > max then return nil end
  return n
end

if #KEYS ~= 2 then return redis.error_reply("BADARG KEYS: want 2") end
if #ARGV < 5 or #ARGV > 26 or #ARGV % 3 ~= 2 then
  return redis.error_reply("BADARG ARGV: want ttl, permits, then slice, size, limit of 1..8 windows")
end
local ring, id = KEYS[1], KEYS[2]
local ttl = integer(ARGV[1], 1000, 31622400000000)
if not ttl then return redis.error_reply("BADARG ttl: want 1000..31622400000000") end
local permits = integer(ARGV[2], 0, 1000000000)
if not permits then return redis.error_reply("BADARG permits: want 0..1000000000") end
local slices, sizes, limits = {}, {}, {}
for i = 1, (#ARGV - 2) / 3 do
  local slice_i = integer(ARGV[3 * i], 1000, 86400000000)
  if not slice_i then return redis.error_reply("BADARG slice_" .. i .. ": want 1000..86400000000") end
  local size_i = integer(ARGV[3 * i + 1], 1, 10000)
  if not size_i then return redis.error_reply("BADARG size_" .. i .. ": want 1..10000") end
  local limit_i = integer(ARGV[3 * i + 2], 1, 1000000000)
  if not limit_i then return redis.error_reply("BADARG limit_" .. i .. ": want 1..1000000000") end
  slices[i], sizes[i], limits[i] = slice_i, size_i, limit_i
end
-- END

-- PART ring_sizes: printed by make generate
local cells = 0
for i = 1, #sizes do cells = cells + sizes[i] end
if cells > 10000 then return redis.error_reply("BADARG ARGV: want up to 10000 slices together") end
-- END
-- PART ring_windows: printed by make generate
for i = 1, #limits do
  if permits > limits[i] then return redis.error_reply("BADARG permits: want up to every limit") end
end
-- END

local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]

-- PART struct: printed by make generate
-- miniredis, a Redis for tests, has no library struct: these two do the same for the formats used here, big-endian
-- integers of 1 to 8 bytes. rawget, because Redis raises an error for a global that does not exist.
local struct = rawget(_G, "struct") or {
  pack = function(format, ...)
    local bytes, numbers, i = "", {...}, 0
    for width in format:gmatch("%d") do
      i = i + 1
      local n, field = numbers[i], ""
      for _ = 1, tonumber(width) do
        field = string.char(n % 256) .. field
        n = math.floor(n / 256)
      end
      bytes = bytes .. field
    end
    return bytes
  end,
  unpack = function(format, bytes, at)
    local numbers = {}
    for width in format:gmatch("%d") do
      local n = 0
      for _ = 1, tonumber(width) do
        n = n * 256 + bytes:byte(at)
        at = at + 1
      end
      numbers[#numbers + 1] = n
    end
    return unpack(numbers) -- the function of Lua
  end,
}
-- END

-- PART ring_header: printed by make generate
-- The header: 14 bytes, and 20 for each section, mostly one or two; the ring itself may have 70 KB.
local header = redis.pcall("GETRANGE", ring, "0", "53")
if header.err then return header end
local stored, total, last = 0, 0
if header ~= "" or redis.call("EXISTS", ring) == 1 then
  if #header > 13 then stored, last, total = struct.unpack(">I1I7I6", header, 1) end
  if #header < 14 + 20 * stored then header = redis.call("GETRANGE", ring, "0", "173") end
  if stored < 1 or #header < 14 + 20 * stored then -- or more than 8
    return redis.error_reply("BADSTATE ring: want 1..8 sections")
  end
end
-- Totals wrap at 2^44: only their differences count. What the windows of a call may hold is less. A window that calls
-- leave out seems emptier when it holds 2^44.
local wrap = 17592186044416
-- END

-- PART ring_clock: printed by make generate
-- The clock may have stepped back: then it stands still at the last grant until it has caught up. A step of up to the
-- longest window, of the ring or of the call, and 60 s is believed. Further ahead, a wrong clock wrote the ring, and
-- nothing in it counts.
local time = now
if stored > 0 and last > now then
  local ahead, wrong = last - now - 60000000, true
  for i = 1, #slices do wrong = wrong and ahead > sizes[i] * slices[i] end
  for j = 1, stored do
    local slice, size = struct.unpack(">I5I2", header, 20 * j - 5)
    wrong = wrong and ahead > size * slice
  end
  if wrong then stored = 0 else time = last end
end
if stored == 0 then last = now end
-- END

-- Asked again, it is granted as before, and nothing is charged. A look does not ask for its id.
local again
if permits > 0 then
  local charged = redis.pcall("GET", id)
  if type(charged) == "table" then return charged end
  if charged then
    local twice = #charged == 11 and struct.unpack(">I4", charged, 8)
    if not twice or twice > 2000000001 then return redis.error_reply("BADSTATE id: want a time and permits") end
    if twice % 2 == 1 then return redis.error_reply("BADARG id: want one that is not settled") end
    if twice ~= 2 * permits then
      return redis.error_reply("BADARG id: want the permits it was granted before")
    end
    again = true
  end
end

-- PART ring_search: printed by make generate
local wanted = math.max(permits, 1) -- a look is told how long one permit would wait
local counts, remaining, wait, reset_after = {unpack(limits)}, limits[1], 0, 0 -- the counts come last to first
local missing, missing_cells = {}, 0 -- windows without a section
local rewrite = stored ~= #limits -- whether a grant writes more than the time and the total
local pages = {} -- what was read of the ring, by its place
for i = #limits, 1, -1 do -- mostly the longest comes last, and others are not searched that cannot wait longer
  local slice, size, room, count = slices[i], sizes[i], limits[i] - wanted, 0

  -- The window's own section is mostly at its place. A new window is counted in another's, up to a slice of that too
  -- early: in the shortest that is as long as the window, or else in the longest.
  local j, its_slice, its_size, shift, high = i
  if i <= stored then its_slice, its_size, shift, high = struct.unpack(">I5I2I6I6", header, 20 * i - 5) end
  local own = its_slice == slice and its_size == size
  if not own then
    rewrite = true
    local min_longer = math.huge
    for k = 1, stored do
      local other, cells = struct.unpack(">I5I2", header, 20 * k - 5)
      if other < 1000 or cells < 1 or cells > 10000 then
        return redis.error_reply("BADSTATE ring: want 1..10000 slices of 1 ms or more")
      end
      local longer = (cells - 1) * other - (size - 1) * slice
      if longer < 0 then longer = 1000000000000000 - longer end
      if other == slice and cells == size then longer, own = -1, true end
      if longer < min_longer then j, min_longer = k, longer end
    end
    if not own then missing[#missing + 1], missing_cells = i, missing_cells + size end
    if stored > 0 then its_slice, its_size, shift, high = struct.unpack(">I5I2I6I6", header, 20 * j - 5) end
  end

  if stored > 0 then
    -- The call fits if the window, which begins with slice start, holds no more than room. If it holds more, the
    -- caller waits until the window begins with free, the first slice from which on no more than room is held. The
    -- later the slice, the less is held from it on: from full it is too much, from free it is not, and the search
    -- moves the two towards each other until they are neighbours. The section knows the its_size slices before free.
    -- Nothing was granted after last: with its slice the window is empty. Where that is no longer than another window
    -- waits, the search may end early.
    local current, empty = (time - time % slice) / slice, last - last % slice + size * slice - now
    if empty > reset_after then reset_after = empty end
    local start, held_in_all = math.floor((current - size + 1) * slice / its_slice), (total + shift) % wrap
    local free = (last - last % its_slice) / its_slice + 1
    local full, probes = math.max(start, free - its_size) - 1, 0
    local page, page_index = "", its_size -- the cells that were read last, from index page_index on; none yet
    local known = own and current < free
    if known then -- no slice has begun since the last grant: the header has the cell of start
      page, page_index = string.sub(header, 20 * j + 8, 20 * j + 14), start % its_size
      count = (held_in_all - (high - high % 16) / 16) % wrap
    else
      rewrite = true
    end
    if empty > 0 and not (known and count <= room) then repeat
      -- Choose a slice between them. The first is start: what is held from it on is the count, and mostly it fits.
      -- The next three follow links, over slices without permits. Then the rest is halved.
      local probe = full + 1
      if probes > 3 then probe = math.floor((full + free) / 2) end

      -- Read its cell, with the seven behind it: where most slices hold permits, the next probes are among them.
      local index = probe % its_size
      local at = 7 * (index - page_index)
      if index < page_index or at + 7 > #page then
        page_index, at = index, 0
        local from = 14 + 20 * stored + 7 * index
        for k = 1, j - 1 do from = from + 7 * struct.unpack(">I2", header, 20 * k) end
        -- As text, because redis.call takes longer to print a number.
        page = redis.call("GETRANGE", ring, string.format("%d", from), string.format("%d", from + 55))
        pages[from] = page
        if #page < 7 then return redis.error_reply("BADSTATE ring: want a cell for each slice") end
      end
      -- The total before the slice is in the first 44 bits, the link in the last 12.
      local bits, low = struct.unpack(">I6I1", page, at + 1)
      local held = (held_in_all - (bits - bits % 16) / 16) % wrap -- from this slice on

      -- Move full or free to it.
      if probes == 0 then count = held end
      probes = probes + 1
      if held <= room then
        free = probe
      else
        -- The link names the first slice from this one on that has permits: from there on as much is held. A link is
        -- modulo 4096: a longer way comes out shorter by 4096 or 8192, which costs one or two more probes.
        full = probe + (bits % 16 * 256 + low - probe) % 4096
        if full >= free then return redis.error_reply("BADSTATE ring: want a cell for each slice") end
      end
    until free - full <= 1 or empty <= wait end
    if count > room then
      local begins = (math.ceil(free * its_slice / slice) + size - 1) * slice - now
      wait = math.max(wait, math.min(begins, empty))
    end
  end
  counts[i] = math.floor(count) -- under Lua 5.4 it may be a float, but a reply must hold integers
  if limits[i] - counts[i] < remaining then remaining = limits[i] - counts[i] end
end
-- END

local granted = 0
if permits > 0 and wait == 0 and not again then
  granted = permits
  -- PART ring_write: printed by make generate
  if not rewrite then
    redis.call("SETRANGE", ring, "1", struct.pack(">I7I6", time, (total + granted) % wrap))
  else
    local cells = 0
    for j = 1, stored do
      local slice, size = struct.unpack(">I5I2", header, 20 * j - 5)
      cells = cells + size
      if slice < 1000 or size < 1 or cells > 10000 then
        return redis.error_reply("BADSTATE ring: want 1..10000 slices of 1 ms or more")
      end
    end
    -- A new window gets a section, as if all that it holds had been granted at the last grant: its total is what it
    -- holds, and 0 before every slice. Where it would be the ninth, or the cells more than 10000, the ring is made
    -- new, with only the windows of this call.
    if stored + #missing > 8 or cells + missing_cells > 10000 then
      stored, cells, missing = 0, 0, {}
      for i = #slices, 1, -1 do missing[#missing + 1] = i end
    end
    local sections, added, from = string.sub(header, 15, 14 + 20 * stored), {""}, 14 + 20 * (stored + #missing)
    for k = #missing, 1, -1 do -- the search began with the last window
      local slice, size, count = slices[missing[k]], sizes[missing[k]], counts[missing[k]]
      local link = (last - last % slice) / slice % 4096
      local cell = struct.pack(">I6I1", math.floor(link / 256), link % 256)
      sections = sections .. struct.pack(">I5I2I6", slice, size, (count - total) % wrap) .. cell
      added[#added + 1] = string.rep(cell, size)
    end

    -- The gaps: the slices that were skipped, and the current one, start from the total so far, and link to the
    -- current one: it is the next with permits. They are written in one piece or, across the section's end, in two.
    local text = struct.pack(">I1I7I6", stored + #missing, time, (total + granted) % wrap)
    local writes, expired, expires = {}, last, time
    for j = 1, stored + #missing do
      local slice, size, shift = struct.unpack(">I5I2I6", sections, 20 * j - 19)
      local oldest = string.sub(sections, 20 * j - 6) -- begins with the cell of the oldest slice of the window
      local last_slice, current = (last - last % slice) / slice, (time - time % slice) / slice
      if current > last_slice then
        local gap = math.min(current - last_slice, size)
        local link, index = current % 4096, (last_slice + 1) % size
        local cell = struct.pack(">I6I1", (total + shift) % wrap * 16 + math.floor(link / 256), link % 256)
        local to_end = math.min(gap, size - index)
        if gap > to_end then writes[#writes + 1] = {from, string.rep(cell, gap - to_end)} end
        writes[#writes + 1] = {from + 7 * index, string.rep(cell, to_end)}
        if gap == size then
          oldest = cell
        elseif j <= stored then -- slice current - size + 1, at its place before the header grows
          local at = from - 20 * #missing + 7 * ((current + 1) % size)
          oldest = pages[at] or redis.call("GETRANGE", ring, string.format("%d", at), string.format("%d", at + 6))
          if #oldest < 7 then return redis.error_reply("BADSTATE ring: want a cell for each slice") end
        end
      end
      text = text .. struct.pack(">I5I2I6", slice, size, shift) .. string.sub(oldest, 1, 7)
      expired = math.max(expired, (last_slice + size) * slice)
      expires = math.max(expires, (current + size) * slice)
      from = from + 7 * size
    end
    -- 1 ms late, for servers whose clock for expiry is behind TIME.
    local expires_ms = math.ceil(expires / 1000) + 1
    if #missing > 0 then
      -- One write, so that no ring is left without its expiry. As text: Redis 7.2 prints round numbers as 1e+9.
      local at = 14 + 20 * stored
      if cells > 0 then
        added[1] = redis.call("GETRANGE", ring, string.format("%d", at), string.format("%d", at + 7 * cells - 1))
      end
      if #added[1] < 7 * cells then return redis.error_reply("BADSTATE ring: want a cell for each slice") end
      local pieces, first, next_write = {text}, #text, 1
      for i = 1, #added do
        local bytes, done = added[i], 0
        local behind = first + #bytes
        while next_write <= #writes and writes[next_write][1] < behind do
          local write = writes[next_write]
          pieces[#pieces + 1] = string.sub(bytes, done + 1, write[1] - first)
          pieces[#pieces + 1] = write[2]
          done, next_write = write[1] - first + #write[2], next_write + 1
        end
        pieces[#pieces + 1] = string.sub(bytes, done + 1)
        first = behind
      end
      redis.call("SET", ring, table.concat(pieces), "PX", string.format("%.0f", expires_ms - math.floor(now / 1000)))
    else
      -- The expiry first: it can be put back if the header is refused, as by an ACL. In two halves, seconds and
      -- milliseconds: half the time of %.0f, and %d may end at 2^31.
      local expired_ms, ms = math.ceil(expired / 1000) + 1, expires_ms % 1000
      if expires_ms > expired_ms then
        redis.call("PEXPIREAT", ring, string.format("%d%03d", (expires_ms - ms) / 1000, ms))
      end
      local written = redis.pcall("SETRANGE", ring, "0", text)
      if type(written) == "table" then
        redis.call("PEXPIREAT", ring, string.format("%.0f", expired_ms))
        return written
      end
      for i = 1, #writes do redis.call("SETRANGE", ring, string.format("%d", writes[i][1]), writes[i][2]) end
    end
  end
  -- END
  -- The id comes after the ring. If it is refused, the total falls back; the ring stays moved on to the current slices,
  -- which changes no count.
  local charge = struct.pack(">I7I4", time, 2 * permits)
  local known = redis.pcall("SET", id, charge, "PX", string.format("%.0f", math.ceil(ttl / 1000) + 1))
  if known.err then
    redis.call("SETRANGE", ring, "8", struct.pack(">I6", total))
    return known
  end
  -- PART ring_granted: printed by make generate
  remaining = remaining - granted
  for i = 1, #counts do
    counts[i] = counts[i] + granted
    reset_after = math.max(reset_after, time - time % slices[i] + sizes[i] * slices[i] - now)
  end
  -- END
end

if again then granted, wait = permits, 0 end
return {granted, math.max(remaining, 0), math.floor(wait), math.floor(reset_after), now, unpack(counts)}
