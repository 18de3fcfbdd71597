-- Decides whether a run may start. The order of the questions is the safety of the scheduler: it is explained at
-- lock-core's `RunLedger`, and is that of its rules. Nothing is written before everything was read.
--
-- KEYS 1 job   2 open runs of its group   3 its history   4 orders of its group
-- ARGV 1 job   2 run   3 claim   4 claim of the attempt before, or ''   5 most attempts   6 epoch
--      7 revision of the job's orders   8 tolerance, ms   9 skip | queue | replace | allow   10 most open runs
--      11 lease, ms   12 node   13 catch-up: 1 or 0   14 missed   15 length of the history
--
-- replies, each after the server's time in µs:
--   claimed, token, attempt   also the answer to a repeat
--   fenced, epoch             skipped, others   busy, others   early, ms
--   duplicate | superseded | paused | outdated | gone | unregistered
local name, run, claim, most = ARGV[1], ARGV[2], ARGV[3], ARGV[15]
local job = fields(KEYS[1])
if not job.mark then return answer('unregistered') end

local at, mark = tonumber(run), tonumber(job.mark)
local open = find_open(KEYS[2], name, run)
if open and open[CLAIM] == claim then return answer('claimed', open[TOKEN], open[ATTEMPT]) end
-- What is above the watermark was never decided.
if not at or at <= mark then
  local ended = find_ended(KEYS[3], run, claim)
  if ended and ended[OUTCOME] == 'skipped' then
    return answer('skipped', string.match(ended[DETAIL], '%d+$'))
  elseif ended then
    return answer('claimed', ended[TOKEN], ended[ATTEMPT])
  end
end

local others = {}
for id in string.gmatch(job.open or '', '%S+') do
  local other = id ~= run and find_open(KEYS[2], name, id)
  if other and not is_over(other) then others[#others + 1] = other end
end
local forbidden = #others > 0
if ARGV[9] == 'allow' then forbidden = #others >= tonumber(ARGV[10]) end

local function start(attempt)
  -- As the tokens of a lock: never more than 1 ms ahead of the clock, so that they grow over the loss of the data.
  local token = job.token and math.max(tonumber(job.token) + 1, now) or now + 1000
  local started = {run, int(attempt), claim, int(token), ARGV[12], ARGV[13], ARGV[14], int(now)}
  started[EXPIRES], started[STATE], started[REPLACED] = int(now_ms + ARGV[11]), 'running', '0'
  job.token = int(token)
  if not open then job.open = (job.open and job.open ~= '') and job.open .. ' ' .. run or run end
  redis.call('HSET', KEYS[1], 'mark', job.mark, 'epoch', job.epoch or '0', 'token', job.token, 'open', job.open)
  redis.call('HSET', KEYS[2], name .. '\n' .. run, cjson.encode(started))
  return answer('claimed', int(token), int(attempt))
end

if ARGV[4] ~= '' then
  if not open or open[CLAIM] ~= ARGV[4] or tonumber(open[ATTEMPT]) >= tonumber(ARGV[5]) then return answer('gone') end
  if open[STATE] == 'running' and not is_over(open) then return answer('busy', int(#others + 1)) end
  if forbidden then return answer('busy', int(#others)) end
  if open[STATE] == 'running' then
    remember(KEYS[3], open, 'abandoned', 'its lease ended without a word', most)
  end
  return start(tonumber(open[ATTEMPT]) + 1)
end

if tonumber(ARGV[6]) < tonumber(job.epoch or 0) then return answer('fenced', job.epoch) end
local trigger = not at and redis.call('HGET', KEYS[4], run)
if at then
  if redis.call('HGET', KEYS[4], 'paused:' .. name) then return answer('paused') end
  if (redis.call('HGET', KEYS[4], 'revision:' .. name) or '0') ~= ARGV[7] then return answer('outdated') end
  if at == mark then return answer('duplicate') end
  if at < mark then return answer('superseded') end
  local wait = math.max(0, at - ARGV[8]) - now_ms
  if wait > 0 then return answer('early', int(wait)) end
elseif not trigger or string.match(trigger, '^%d+ (.*)$') ~= name or open or find_ended(KEYS[3], run) then
  return answer('duplicate')
end

if forbidden and (ARGV[9] == 'queue' or ARGV[9] == 'replace') then
  if ARGV[9] == 'replace' then
    for _, other in ipairs(others) do
      other[REPLACED] = '1'
      redis.call('HSET', KEYS[2], name .. '\n' .. other[RUN], cjson.encode(other))
    end
  end
  return answer('busy', int(#others))
end

if at then job.mark = run end
job.epoch = int(math.max(tonumber(ARGV[6]), tonumber(job.epoch or 0)))
if trigger then redis.call('HDEL', KEYS[4], run) end
if forbidden then
  local skipped = {run, '0', claim, '0', ARGV[12], ARGV[13], ARGV[14], int(now)}
  remember(KEYS[3], skipped, 'skipped', 'other runs that were open: ' .. #others, most)
  redis.call('HSET', KEYS[1], 'mark', job.mark, 'epoch', job.epoch)
  return answer('skipped', int(#others))
end
return start(1)
