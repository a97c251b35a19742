-- Gives time_of_score. Redis 7.2 prints large round scores as 1e+15; miniredis, in gopher-lua, reads only 1.e+15.
local function time_of_score(score)
  local max_exact = 9007199254740991 -- 2^53 - 1: up to there a Lua number is exact
  local time = tonumber(score) or tonumber((score:gsub("e", ".e")))
  if time and time >= 0 and time <= max_exact and time % 1 == 0 then return time end
end
