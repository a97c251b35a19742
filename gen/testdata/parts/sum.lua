-- Takes seen and calls. Gives total and parity. The total of what was seen, which is calls.
local total, digit = seen.calls, 1
local parity = calls % 2
