-- Carries out a command for a job. Instants that were missed under the previous controls stay missed, since the
-- watermark is raised to now.
--
-- KEYS 1 job   2 group   3 open runs of the group   4 history of the job   5 payloads of the group
-- ARGV 1 job   2 pause | resume | replace | restore | reset | reinstate | trigger | cancel_trigger
--        | cancel | backfill | cancel_backfill
--      3 schedule, trigger:<uuid>, backfill:<uuid>, the note of a pause, controls (JSON), or the run to cancel,
--        '' for all open ones
--      4 lifetime of a trigger, ms   5 maximum number of triggers in the group   6 in the job   7 author of a pause
--      8 payload of a trigger, or ''   9 maximum number of triggers with a payload in the group
--      and of a backfill: 10 its first instant, ms   11 its last instant, ms   12 number of instants
--      13 schedule   14 policy for clock changes   15 maximum number of backfills in the group   16 in the job
--
-- replies, each after the server's time in µs:
--   accepted, revision of the group
--   unregistered | full | gone

--@include shared/ledger.lua

local name, command, value = ARGV[1], ARGV[2], ARGV[3]
local job = fields(KEYS[1])

if command == 'reinstate' then
  if job.instance == '' then return answer('unregistered') end
  create(KEYS[2])
  if not job.mark then redis.call('HSET', KEYS[1], 'mark', int(now_ms)) end
  local before = recall(redis.call('HGET', KEYS[2], 'job:' .. name))
  local revision = tonumber(redis.call('HGET', KEYS[2], 'revision'))
  local reinstated = tonumber(cjson.decode(value).revision)
  if reinstated > tonumber(before.revision or 0) then
    -- The revision may come from a clock that was ahead. Later commands get a higher one.
    revision = next_revision(math.max(revision, reinstated))
    redis.call('HSET', KEYS[2], 'revision', int(revision), 'job:' .. name, value)
  end
  return answer('accepted', int(revision))
end

if not job.mark or job.instance == '' and command ~= 'cancel' then return answer('unregistered') end
local group = fields(KEYS[2])
local revision = tonumber(group.revision or 0)

if command == 'trigger' then
  -- The command may be a late repeat, whose trigger has already run.
  if group[value] or find_open(KEYS[3], name, value) or remembers(KEYS[4], value) then
    return answer('accepted', int(revision))
  end
  local alive, of_job, with_payload = 0, 0, 0
  for field, text in pairs(group) do
    local trigger = string.find(field, '^trigger:') and cjson.decode(text)
    if trigger and now <= tonumber(trigger['until']) then
      alive = alive + 1
      if trigger.job == name then of_job = of_job + 1 end
      if trigger.payload == true then with_payload = with_payload + 1 end
    elseif trigger and trigger.job == name then
      redis.call('HDEL', KEYS[2], field)
      drop_payload(KEYS[5], name, field)
    end
  end
  if alive >= tonumber(ARGV[5]) or of_job >= tonumber(ARGV[6]) then return answer('full') end
  local has_payload = ARGV[8] ~= ''
  if has_payload and with_payload >= tonumber(ARGV[9]) then return answer('full') end
  revision = next_revision(revision)
  local trigger = {job = name, given = int(now), ['until'] = int((now_ms + ARGV[4]) * 1000)}
  if has_payload then
    trigger.payload = true
    redis.call('HSET', KEYS[5], name .. '\n' .. value, ARGV[8])
  end
  redis.call('HSET', KEYS[2], 'revision', int(revision), value, cjson.encode(trigger))
  return answer('accepted', int(revision))
end

if command == 'backfill' then
  local known = group[value] or count_backfilled(job, value) > 0
  for _, text in ipairs(known and {} or redis.call('LRANGE', KEYS[4], '0', '-1')) do
    known = known or is_backfilled(recall(text).run, value)
  end
  -- The command may be a late repeat, whose runs have already started.
  if known then return answer('accepted', int(revision)) end
  local alive, of_job = 0, 0
  for field, text in pairs(group) do
    if string.find(field, '^backfill:') then
      alive = alive + 1
      if cjson.decode(text).job == name then of_job = of_job + 1 end
    end
  end
  if alive >= tonumber(ARGV[15]) or of_job >= tonumber(ARGV[16]) then return answer('full') end
  revision = next_revision(revision)
  local backfill = {
    job = name, given = int(now), first = ARGV[10], mark = int(ARGV[10] - 1), last = ARGV[11],
    count = tonumber(ARGV[12]), done = 0, schedule = ARGV[13], dst = ARGV[14],
  }
  redis.call('HSET', KEYS[2], 'revision', int(revision), value, cjson.encode(backfill))
  return answer('accepted', int(revision))
end

if command == 'cancel_trigger' or command == 'cancel_backfill' then
  local trigger = decode(group[value])
  if not trigger or trigger.job ~= name then return answer('gone') end
  revision = next_revision(revision)
  redis.call('HDEL', KEYS[2], value)
  drop_payload(KEYS[5], name, value)
  redis.call('HSET', KEYS[2], 'revision', int(revision))
  return answer('accepted', int(revision))
end

if command == 'cancel' then
  local found, marked = false, false
  for id in string.gmatch(job.open or '', '%S+') do
    local open = (value == '' or value == id) and find_open(KEYS[3], name, id)
    if open then
      found, marked = true, marked or open.cancelled ~= true
      -- A node of an older version, which does not know `cancelled`, ends a replaced run without a retry.
      open.cancelled, open.replaced = true, true
      write_open(KEYS[3], name, open)
    end
  end
  if not found then return answer('gone') end
  if marked then
    revision = next_revision(revision)
    redis.call('HSET', KEYS[2], 'revision', int(revision))
  end
  return answer('accepted', int(revision))
end

local controls = decode(group['job:' .. name]) or {revision = '0', paused = false}
local before = controls.paused
local noted = (controls.note or '') == value and (controls.actor or '') == ARGV[7]
local same = command == 'pause' and before and noted or command == 'resume' and not before
  or command == 'replace' and controls.schedule == value or command == 'restore' and not controls.schedule
-- The first command of a job is recorded even if it changes nothing: it replaces controls from before a loss of data.
if same and group['job:' .. name] then return answer('accepted', int(revision)) end
revision = next_revision(revision)
controls.revision = int(revision)
if command == 'pause' then controls.paused, controls.note, controls.actor = true, value, ARGV[7] end
if command == 'resume' then controls.paused, controls.note, controls.actor = false, nil, nil end
if command == 'replace' then controls.schedule = value end
if command == 'restore' then controls.schedule = nil end
redis.call('HSET', KEYS[2], 'revision', int(revision), 'job:' .. name, cjson.encode(controls))
if command == 'reset' then
  -- Lowers times in the future, which were written while the clock was ahead.
  local since = decode(job.since) or {}
  for _, of in pairs(since) do
    of.from = int(math.min(tonumber(of.from), now_ms))
  end
  -- The only instant of a job that runs once is late, not decided.
  local mark = job.once and math.min(tonumber(job.mark), now_ms) or now_ms
  redis.call('HSET', KEYS[1], 'mark', int(mark), 'since', cjson.encode(since))
  for id in string.gmatch(job.open or '', '%S+') do
    local open = find_open(KEYS[3], name, id)
    if open then
      open.expires = int(math.min(tonumber(open.expires), now_ms + tonumber(open.lease)))
      write_open(KEYS[3], name, open)
    end
  end
elseif command ~= 'pause' and not same and not job.once and now_ms > tonumber(job.mark) then
  redis.call('HSET', KEYS[1], 'mark', int(now_ms))
end
return answer('accepted', int(revision))
