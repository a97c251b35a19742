-- Takes limit and what sum gives. Gives double. Twice the total.
local double = 2 * total + now
