-- Adds an instance, or changes its definition. A new instance, and one with another schedule, starts now.
--
-- KEYS 1 job   2 group   3 instances of the group   4 their changes   5 their names   6 payloads
-- ARGV 1 job   2 schedule   3 policy for clock changes   4 payload   5 its only instant, ms, or ''
--      6 the life of its record after that, ms   7 node   8 maximum number of instances   9 maximum length of all their
--      payloads, bytes
--
-- replies, each after the server's time in µs: 
--   added | changed | unchanged | already_run | full | too_large
--   decided, the watermark, ms

--@include shared/ledger.lua

local name, once = ARGV[1], ARGV[5] ~= '' and ARGV[5] or nil
local kept = once and ARGV[6] or nil
local job, before = fields(KEYS[1]), decode(redis.call('HGET', KEYS[3], name))
local payload = redis.call('HGET', KEYS[6], name) or ''
-- It also starts again if the key of its job alone was lost.
local restarts = not (job.mark and before and before.schedule == ARGV[2] and before.dst == ARGV[3])
if not restarts and payload == ARGV[4] and before.once == once and before.kept == kept then
  return answer('unchanged')
end
-- An instance does not displace a run that waits for its only instant.
if before and before.once and not once then return answer('already_run') end
if has_run_once(job) then return answer('already_run') end
if once and job.mark and tonumber(once) <= tonumber(job.mark) then return answer('decided', job.mark) end
if not before and redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[8]) then return answer('full') end
if not set_payload(KEYS[6], name, ARGV[4], tonumber(ARGV[9])) then return answer('too_large') end

create(KEYS[2])
local revision = record_change(KEYS[2], KEYS[4], name)
local instance = {
  schedule = ARGV[2], dst = ARGV[3], once = once, kept = kept, revision = revision,
  added_by = ARGV[7], added_at = int(now), since = restarts and int(now) or before.since or before.added_at,
}
if before then
  before.once, before.kept = nil, nil
  keep_unknown(before, instance)
end
redis.call('HSET', KEYS[3], name, cjson.encode(instance))
redis.call('ZADD', KEYS[5], '0', name)
-- Nothing comes before the only instant, which may be in the past.
local mark = tonumber(job.mark or 0)
if restarts and not once then mark = math.max(mark, now_ms) end
redis.call('HSET', KEYS[1], 'mark', int(mark), 'instance', revision)
if once then redis.call('HSET', KEYS[1], 'once', once, 'kept', kept) else redis.call('HDEL', KEYS[1], 'once', 'kept') end
return answer(before and 'changed' or 'added')
