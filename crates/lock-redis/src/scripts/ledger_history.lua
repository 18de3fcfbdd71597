-- Lists the last entries of a job's history, newest first.
--
-- KEYS 1 history of the job
-- ARGV 1 maximum number of entries
--
-- reply: the server's time in µs, `history`, then each entry (JSON)

--@include shared/ledger.lua

local reply = answer('history')
for at, text in ipairs(redis.call('LRANGE', KEYS[1], '0', '-1')) do
  if at <= tonumber(ARGV[1]) then reply[#reply + 1] = text end
end
return reply
