-- Redis 7.2 prints large round scores as 1e+15; gopher-lua, the Lua of miniredis, reads only 1.e+15. Up to 2^53 - 1 a
-- Lua number is exact.
local function time_of_score(score)
  local time = tonumber(score) or tonumber((score:gsub("e", ".e")))
  if time and time >= 0 and time <= 9007199254740991 and time % 1 == 0 then return time end
end
