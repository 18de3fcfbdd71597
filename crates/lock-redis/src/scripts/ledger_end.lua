-- Records how an attempt ended, if it still has the claim. A repeat finds the record. If a run is given up for
-- another node, the revision of the group is raised so that the leader looks immediately. A cancelled run has ended.
--
-- KEYS 1 job   2 open runs of its group   3 its history   4 group   5 instances of the group   6 their changes
--      7 summaries   8 payloads   9 names of the instances
-- ARGV 1 job   2 run   3 claim   4 outcome   5 detail   6 finish | retry | reassign | requeue | decline   7 length of the history
--      8 the time for which no other node continues a requeued run, ms, or ''   9 maximum number of times that a run is declined
--
-- replies, each after the server's time in µs: recorded | gone

--@include shared/ledger.lua

local name, run, claim, next = ARGV[1], ARGV[2], ARGV[3], ARGV[6]
local keys = {job = KEYS[1], history = KEYS[3], group = KEYS[4], instances = KEYS[5], changes = KEYS[6]}
keys.summaries, keys.payloads, keys.names = KEYS[7], KEYS[8], KEYS[9]
local open = find_open(KEYS[2], name, run)
if not open or open.claim ~= claim then
  return answer(remembers(KEYS[3], run, claim) and 'recorded' or 'gone')
end
local was_running = open.stage ~= 'failed' and open.stage ~= 'interrupted' and open.stage ~= 'unbegun'
local declines = (open.declines or 0) + 1
local declined_by_all = was_running and next == 'decline' and declines >= tonumber(ARGV[9])
if open.cancelled == true or declined_by_all then next = 'finish' end
-- The end of an attempt that had ended before is already in the history, unless it was requeued.
local unbegun = next == 'requeue' or next == 'decline'
if was_running and not unbegun or open.stage == 'unbegun' and next == 'finish' then
  local entry = ended(open, ARGV[4], ARGV[5])
  remember(KEYS[3], entry, ARGV[7])
  summarize(keys, name, entry)
end
if next == 'finish' then
  local job, left = fields(KEYS[1]), {}
  for id in string.gmatch(job.open or '', '%S+') do
    if id ~= run then left[#left + 1] = id end
  end
  redis.call('HDEL', KEYS[2], name .. '\n' .. run)
  drop_payload(KEYS[8], name, run)
  -- A missing job is not created, because it would have no watermark.
  if job.mark then
    job.open = table.concat(left, ' ')
    redis.call('HSET', KEYS[1], 'open', job.open)
    conclude(keys, name, job)
  end
  return answer('recorded')
end
if was_running then
  if next == 'retry' then open.stage, open.failures = 'failed', open.failures + 1 end
  if next == 'reassign' then open.stage = 'interrupted' end
  if unbegun then open.stage = 'unbegun' end
  -- Otherwise the node could read the payload, or did not try.
  open.declines = next == 'decline' and declines or nil
end
if next ~= 'retry' then
  open.expires = ARGV[8] == '' and '0' or int(now_ms + tonumber(ARGV[8]))
  local revision = int(next_revision(redis.call('HGET', KEYS[4], 'revision')))
  redis.call('HSET', KEYS[4], 'revision', revision)
  if next == 'decline' then redis.call('HSET', KEYS[4], 'declined', revision) end
end
write_open(KEYS[2], name, open)
return answer('recorded')
