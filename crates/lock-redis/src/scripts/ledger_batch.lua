-- Carries out requests to the run ledger independently: the failure of one does not affect the others.
--
-- KEYS of each request in turn: the keys of its own script
-- ARGV of each request in turn: the name of its script, the number of its keys, the number of its arguments, then the
--      arguments of its own script
--
-- reply: the server's time in µs, `done`, then for each request in turn: the reply of its own script; or the time,
--        `error` and the error text if it raised an error

--@include shared/ledger.lua
--@function ledger_register(KEYS, ARGV)
--@function ledger_open(KEYS, ARGV)
--@function ledger_heartbeat(KEYS, ARGV)
--@function ledger_describe(KEYS, ARGV)

local scripts = {
  ['register jobs'] = ledger_register,
  ['list open runs'] = ledger_open,
  ['send a heartbeat'] = ledger_heartbeat,
  ['describe jobs'] = ledger_describe,
}
local reply, key, argument = answer('done'), 1, 1

local function take(list, first, count)
  local taken = {}
  for i = 1, count do taken[i] = list[first + i - 1] end
  return taken
end

while ARGV[argument] do
  local name, keys, arguments = ARGV[argument], tonumber(ARGV[argument + 1]), tonumber(ARGV[argument + 2])
  local done, of_one = pcall(scripts[name], take(KEYS, key, keys), take(ARGV, argument + 3, arguments))
  if not done then
    -- Before Redis 7, a raised error is a string.
    local text = type(of_one) == 'table' and of_one.err or of_one
    -- A replica refuses every request. The whole call then fails, so that the caller detects it.
    if string.find(text, 'READONLY', 1, true) then return redis.error_reply(text) end
    of_one = answer('error', text)
  end
  reply[#reply + 1] = of_one
  key, argument = key + keys, argument + 3 + arguments
end
return reply
