-- A part that says nothing of itself.
local total = 0
