-- Commands are given strings: Redis formats Lua numbers more slowly, and `n..''` rounds them to 14 digits. Each
-- string is made once, since the operations of a batch share the time. The string of the time is joined from its parts,
-- because formatting a double costs a tenth of an acquire; the microseconds have no leading zeros.
local texts = {}
local function int(n)
  local text = texts[n]
  if not text then
    text = n == now and time[1] .. string.sub('00000' .. time[2], -6) or string.format('%.0f', n)
    texts[n] = text
  end
  return text
end

