-- Lists the open runs of a group.
--
-- KEYS 1 open runs of the group
--
-- reply: the server's time in µs, `open`, then for each run: job, attempt (JSON)

--@include shared/ledger.lua

local reply = answer('open')
for field, open in pairs(fields(KEYS[1])) do
  reply[#reply + 1] = string.match(field, '^(.*)\n')
  reply[#reply + 1] = open
end
return reply
