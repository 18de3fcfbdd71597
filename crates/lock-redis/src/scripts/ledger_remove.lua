-- Removes an instance, or everything that the ledger stores about a job.
--
-- KEYS 1 job   2 group   3 instances of the group   4 their changes   5 open runs of the group   6 history of the job
--      7 summaries of the group   8 payloads of the group   9 names of the instances
-- ARGV 1 job   2 keep | forget
--
-- replies, each after the server's time in µs: removed | unknown

--@include shared/ledger.lua

local name, job = ARGV[1], fields(KEYS[1])
local keys = {group = KEYS[2], instances = KEYS[3], changes = KEYS[4], payloads = KEYS[8], names = KEYS[9]}
if not undefine(keys, name) and (ARGV[2] == 'keep' or not job.mark) then return answer('unknown') end
redis.call('HDEL', KEYS[7], name)
local forgets = ARGV[2] == 'forget' or job.once and (job.open or '') == ''
if forgets then
  for run in string.gmatch(job.open or '', '%S+') do
    redis.call('HDEL', KEYS[5], name .. '\n' .. run)
    drop_payload(KEYS[8], name, run)
  end
  -- An expiry of 0 deletes the key.
  redis.call('PEXPIRE', KEYS[1], '0')
  redis.call('PEXPIRE', KEYS[6], '0')
else
  redis.call('HSET', KEYS[1], 'instance', '')
end
drop_controls(KEYS[2], KEYS[8], name, forgets)
return answer('removed')
