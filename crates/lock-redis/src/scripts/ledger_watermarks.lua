-- Reads the times up to which jobs are decided. Writes nothing.
--
-- KEYS 1… jobs
-- ARGV 1… fingerprint of each job's schedule
--
-- reply: the server's time in µs, `read`, then for each job: the time in ms, or '' if the job is unknown
local reply = answer('read')
for i, key in ipairs(KEYS) do
  local mark = redis.call('HGET', key, 'mark')
  reply[#reply + 1] = mark and int(decided(mark, decode(redis.call('HGET', key, 'since')), ARGV[i])) or ''
end
return reply
