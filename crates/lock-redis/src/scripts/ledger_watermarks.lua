-- Reads the times up to which jobs are decided. Writes nothing.
--
-- KEYS 1… jobs
-- ARGV 1… fingerprint of each job's schedule
--
-- reply: the server's time in µs, `read`, then for each job: the time in ms, or '' if the job is unknown

--@include shared/ledger.lua

local reply = answer('read')
for i, key in ipairs(KEYS) do reply[#reply + 1] = watermark(key, ARGV[i]) end
return reply
