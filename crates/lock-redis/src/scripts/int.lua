-- Commands are given strings: Redis formats Lua numbers more slowly, and `n..''` rounds them to 14 digits. Each
-- string is made once, since the operations of a batch share numbers.
local texts = {}
local function int(n)
  local text = texts[n]
  if not text then
    text = string.format('%.0f', n)
    texts[n] = text
  end
  return text
end

