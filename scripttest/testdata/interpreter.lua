-- Runs scripts in a Lua other than Redis's, for interpreters_test.go. Each message is a line: texts in hexadecimal,
-- separated by spaces, behind a word that says what they are. The process that started this one executes the commands of
-- a script.

local hex_of, byte_of = {}, {}
for n = 0, 255 do
  hex_of[string.char(n)], byte_of[string.format("%02x", n)] = string.format("%02x", n), string.char(n)
end

local function hex(text)
  return (text:gsub(".", hex_of)) .. "."
end

local function words(line)
  local list = {}
  for word in line:gmatch("%S+") do
    list[#list + 1] = word
  end
  return list
end

local function text(word)
  return (word:sub(1, -2):gsub("%x%x", byte_of))
end

-- A reply as Redis hands it to a script.
local function reply(list, from)
  local word = list[from]
  local kind, rest = word:sub(1, 1), word:sub(2)
  if kind == "i" then return tonumber(rest), from + 1 end
  if kind == "s" then return text(rest), from + 1 end
  if kind == "o" then return {ok = text(rest)}, from + 1 end
  if kind == "e" then return {err = text(rest)}, from + 1 end
  if kind == "n" then return false, from + 1 end
  local items, item = {}, nil
  from = from + 1
  for i = 1, tonumber(rest) do
    item, from = reply(list, from)
    items[i] = item
  end
  return items, from
end

-- Scores as floats, as a server with Lua 5.4 gives them.
local function scored(got, command, ...)
  local function float(score) return (tonumber(score) or score == "inf" and math.huge or -math.huge) + 0.0 end
  if type(got) == "table" and got.err then return got end
  if command == "ZSCORE" and got then return float(got) end
  if command == "ZRANGE" and select(select("#", ...), ...) == "WITHSCORES" then
    for i = 2, #got, 2 do got[i] = float(got[i]) end
  end
  return got
end

local function call(...)
  local sent = {"call"}
  for i, word in ipairs({...}) do
    if type(word) == "number" then word = string.format("%.17g", word) end
    sent[i + 1] = hex(word)
  end
  print(table.concat(sent, " "))
  local got = reply(words(io.read("*l")), 1)
  if math.type then got = scored(got, ...) end
  return got
end

redis = {
  pcall = call,
  call = function(...)
    local got = call(...)
    if type(got) == "table" and got.err then error(got.err, 0) end
    return got
  end,
  error_reply = function(message) return {err = message} end,
}
unpack = unpack or table.unpack
if string.pack then
  -- As a struct library that knows numbers of one type only: all that it reads are floats, without a sign.
  struct = {pack = string.pack, unpack = function(...)
    local numbers = {string.unpack(...)}
    for i = 1, #numbers - 1 do
      numbers[i] = numbers[i] + (numbers[i] < 0 and 2.0 ^ 64 or 0.0)
    end
    return unpack(numbers)
  end}
end

-- Scripts as they were sent, compiled: most are called again.
local chunks = {}

io.stdout:setvbuf("line")
for line in io.lines() do
  local list = words(line)
  KEYS, ARGV = {}, {}
  for i = 3, #list do
    local into = list[i]:sub(1, 1) == "k" and KEYS or ARGV
    into[#into + 1] = text(list[i]:sub(2))
  end
  local source = list[2]
  chunks[source] = chunks[source] or assert((loadstring or load)(text(source), "script"))
  local ok, got = pcall(chunks[source])
  if not ok then
    print("raised " .. hex(tostring(got)))
  elseif got.err then
    print("error " .. hex(got.err))
  else
    local sent = {"reply"}
    for i, n in ipairs(got) do
      -- Where whole numbers are a type of their own, a server sends others as texts.
      sent[i + 1] = (not math.type or math.type(n) == "integer") and string.format("%.0f", n) or "float:" .. tostring(n)
    end
    print(table.concat(sent, " "))
  end
end
