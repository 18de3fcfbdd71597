-- Decides whether a run may start. The scheduler's safety depends on the order of the checks, which is that of the
-- rules of lock-ledger's `RunLedger`. Everything is read before anything is written.
--
-- KEYS 1 job   2 open runs of its group   3 its history   4 group   5 instances of the group   6 their changes
--      7 summaries   8 payloads   9 names of the instances
-- ARGV 1 job   2 run   3 claim   4 claim of the previous attempt, or ''   5 budget of failures   6 of orphanings
--      7 first run of a skip, or ''   8 its count   9 its detail   10 fingerprint of the schedule
--      11 revision of the job's controls   12 skip | queue | replace | allow   13 maximum number of open runs
--      14 lease, ms   15 node   16 catch-up: 1 or 0   17 length of the history
--      18 the instant before by the same schedule, ms, or ''   19 revision of the job's definition
--      20 pool, or ''   21 its maximum number of open runs   22 the time after which the run is not started, ms, or ''
--
-- replies, each after the server's time in µs:
--   claimed, token, attempt, failures, payload or ''   also the reply to a repeat
--   busy, others   pool_full, others in the pool   early, ms
--   skipped | expired | duplicate | superseded | partly_decided | late | behind | paused | outdated | gone | unregistered

--@include shared/ledger.lua

local name, run, claim, length = ARGV[1], ARGV[2], ARGV[3], ARGV[17]
local lease = tonumber(ARGV[14])
local job = fields(KEYS[1])
if not job.mark then return answer('unregistered') end

local keys = {job = KEYS[1], history = KEYS[3], group = KEYS[4], instances = KEYS[5], changes = KEYS[6]}
keys.summaries, keys.payloads, keys.names = KEYS[7], KEYS[8], KEYS[9]
local open = find_open(KEYS[2], name, run)

local function claimed(token, number, failures)
  local payload = string.find(run, '^trigger:') and redis.call('HGET', KEYS[8], name .. '\n' .. run)
  if not payload and job.instance then payload = redis.call('HGET', KEYS[8], name) end
  return answer('claimed', token, int(number), int(failures), payload or '')
end

if open and open.claim == claim then
  if is_over(open) or open.stage ~= 'running' then return answer('gone') end
  open.expires = int(math.max(tonumber(open.expires), now_ms + lease))
  write_open(KEYS[2], name, open)
  return claimed(open.token, open.attempt, open.failures)
end
local last = recall(redis.call('LRANGE', KEYS[3], '0', '0')[1])
if last.outcome == 'skipped' and last.claim == claim then return answer('skipped') end

local others = {}
for id in string.gmatch(job.open or '', '%S+') do
  local other = id ~= run and find_open(KEYS[2], name, id)
  if other and not is_over(other) then others[#others + 1] = other end
end
local forbidden = #others >= tonumber(ARGV[13])

-- Returns the answer to a claim whose pool is full. The run itself is not counted, so that a run that waits for its next
-- attempt keeps its place.
local function refused_by_pool()
  if ARGV[20] == '' then return end
  local taken, this, in_pool = 0, name .. '\n' .. run, '"pool":' .. cjson.encode(ARGV[20])
  for field, text in pairs(fields(KEYS[2])) do
    -- Only runs of the pool are decoded, because decoding takes most of the time.
    if field ~= this and string.find(text, in_pool, 1, true) then
      local other = recall(text)
      if other.pool == ARGV[20] and not is_over(other) then taken = taken + 1 end
    end
  end
  if taken >= tonumber(ARGV[21]) then return answer('pool_full', int(taken)) end
end

local function attempt(number, token)
  return {
    run = run, first = run, count = 1, attempt = number, claim = claim, token = token, node = ARGV[15],
    catch_up = ARGV[16] == '1', started = int(now),
  }
end

local function skip(first, count, detail)
  local skipped = attempt(0, '0')
  skipped.first, skipped.count, skipped.outcome = first, count, 'skipped'
  skipped.ended, skipped.detail = int(now), detail
  remember_skip(KEYS[3], skipped, length)
  summarize(keys, name, skipped)
end

local function start(number, failures, orphanings)
  -- Like the tokens of a lock: never more than 1 ms ahead of the clock, so that they increase even if the data is
  -- lost.
  local token = int(job.token and math.max(tonumber(job.token) + 1, now) or now + 1000)
  local started = attempt(number, token)
  keep_unknown(open or {}, started)
  started.expires, started.lease, started.stage = int(now_ms + lease), int(lease), 'running'
  started.failures, started.orphanings, started.replaced = failures, orphanings, false
  started.pool = ARGV[20] ~= '' and ARGV[20] or nil
  local known = job.open or ''
  -- A job whose key was lost no longer knows its open runs.
  if not string.find(' ' .. known .. ' ', ' ' .. run .. ' ', 1, true) then
    job.open = known == '' and run or known .. ' ' .. run
  end
  redis.call('HSET', KEYS[1], 'mark', job.mark, 'token', token, 'open', job.open)
  write_open(KEYS[2], name, started)
  return claimed(token, number, failures)
end

if ARGV[4] ~= '' then
  if not open or open.claim ~= ARGV[4] or open.cancelled == true then return answer('gone') end
  local number, failures, orphanings = open.attempt + 1, open.failures, open.orphanings
  local running = open.stage ~= 'failed' and open.stage ~= 'interrupted' and open.stage ~= 'unbegun'
  if open.stage == 'unbegun' then
    number = open.attempt
  elseif open.stage == 'failed' then
    if failures > tonumber(ARGV[5]) then return answer('gone') end
  else
    if orphanings >= tonumber(ARGV[6]) then return answer('gone') end
    orphanings = orphanings + 1
  end
  if running and not is_over(open) then return answer('busy', int(#others + 1)) end
  if forbidden then return answer('busy', int(#others)) end
  local refused = refused_by_pool()
  if refused then return refused end
  if running then
    local lost = ended(open, 'abandoned', 'its lease expired before an outcome was recorded')
    remember(KEYS[3], lost, length)
    summarize(keys, name, lost)
  end
  return start(number, failures, orphanings)
end

if not is_defined_by(job, ARGV[19]) then return answer('outdated') end
local controls = decode(redis.call('HGET', KEYS[4], 'job:' .. name)) or {}
local at, trigger, backfill = tonumber(run), nil, nil
local backfill_id, backfilled = string.match(run, '^(backfill:[%x%-]+):(%d+)$')
if at then
  if controls.paused == true then return answer('paused') end
  if (controls.revision or '0') ~= ARGV[11] then return answer('outdated') end
  if at == tonumber(job.mark) or open then return answer('duplicate') end
  local mark = decided(job.mark, decode(job.since), ARGV[10])
  if at <= mark then return answer('superseded') end
  if ARGV[7] ~= '' and tonumber(ARGV[7]) <= mark then return answer('partly_decided') end
  if at > now_ms then return answer('early', int(at - now_ms)) end
  if ARGV[22] ~= '' and now_ms > tonumber(ARGV[22]) then return answer('late') end
  if ARGV[18] ~= '' and mark < tonumber(ARGV[18]) then return answer('behind') end
elseif backfill_id then
  if controls.paused == true then return answer('paused') end
  backfill = decode(redis.call('HGET', KEYS[4], backfill_id))
  if not backfill or backfill.job ~= name or open then return answer('duplicate') end
  local instant, mark = tonumber(backfilled), tonumber(backfill.mark)
  if instant == mark then return answer('duplicate') end
  if instant < mark or instant > tonumber(backfill.last) then return answer('superseded') end
  if instant > now_ms then return answer('early', int(instant - now_ms)) end
  local running = count_backfilled(job, backfill_id)
  if running > 0 then return answer('busy', int(running)) end
  if ARGV[7] == '' and forbidden then return answer('busy', int(#others)) end
else
  trigger = decode(redis.call('HGET', KEYS[4], run))
  if not trigger or trigger.job ~= name or open then return answer('duplicate') end
  if now > tonumber(trigger['until']) then
    redis.call('HDEL', KEYS[4], run)
    drop_payload(KEYS[8], name, run)
    skip(run, 1, 'the trigger expired')
    return answer('expired')
  end
end

local skips = ARGV[7] ~= ''
if not skips and forbidden and (ARGV[12] == 'queue' or ARGV[12] == 'replace') then
  if ARGV[12] == 'replace' then
    for _, other in ipairs(others) do
      other.replaced = true
      write_open(KEYS[2], name, other)
    end
  end
  return answer('busy', int(#others))
end

local refused = not skips and not forbidden and refused_by_pool()
if refused then return refused end
if at then job.mark = run end
if trigger then redis.call('HDEL', KEYS[4], run) end
if backfill then
  backfill.mark, backfill.done = backfilled, backfill.done + 1
  if tonumber(backfilled) >= tonumber(backfill.last) then
    redis.call('HDEL', KEYS[4], backfill_id)
  else
    redis.call('HSET', KEYS[4], backfill_id, cjson.encode(backfill))
  end
end
if skips or forbidden then
  if trigger then drop_payload(KEYS[8], name, run) end
  redis.call('HSET', KEYS[1], 'mark', job.mark)
  if skips then skip(ARGV[7], tonumber(ARGV[8]), ARGV[9]) else skip(run, 1, 'other runs were open') end
  job.open = job.open or ''
  conclude(keys, name, job)
  return answer('skipped')
end
return start(1, 0, 0)
