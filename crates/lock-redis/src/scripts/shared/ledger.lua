-- The stored data of the run ledger, and the functions that its scripts share.
--
-- Gives `now` in µs, `now_ms`, and its functions.
--
-- job: HASH   mark = the watermark, ms   token = the last fencing token   open = its open runs, separated by spaces
--             since = JSON object: fingerprint of a schedule → {from, seen}, ms; seen on the clock `led` of its group
--             instance = the revision of its definition, or '' once that is removed; only of an instance
--             once = its only instant, ms   kept = the life of its record after that has run, ms
-- open runs of a group: HASH   "<job>\n<run>" = an attempt
-- history of a job: LIST of attempts and skips, newest first
-- group: HASH   revision   created, ms   instances = the revision of the instances   declined = the revision at which a run was last declined   seen = the last registration, ms   led = total time with leaders, ms
--               job:<job> = {revision, paused, actor, note, schedule}
--               trigger:<uuid> = {job, given, until, µs, payload = true if it has one}
--               backfill:<uuid> = {job, given, µs, first, mark, last, ms, count, done, schedule, dst}
-- payloads of a group: HASH   "<job>\n<run>" = the payload of a pending trigger or of an open run
--                               <job> = the payload of an instance   "\nbytes" = the total length of these
-- nodes of a group: HASH   <uuid> = {name, jobs, room, kinds, leading, expires}, ms; jobs = the hash of its jobs and their
--                          schedules; kinds, separated by slashes
-- instances of a group: HASH   <job> = {schedule, dst, once, kept, revision, added_by, added_at, since}, ms and µs
-- names of instances: ZSET of <job>, each with the score 0, so that they are in order
-- changes of instances: LIST of '<revision> <job>', newest first
-- summaries of a group: HASH   <job> or <kind>/ = {schedule, dst, terms, alert, ms, since, ms, described, µs, recent = outcomes, newest first, separated by spaces,
--               last = the last attempt that was no skip, success, µs, failing, µs}
--
-- Attempts, controls, triggers, nodes, instances and summaries are JSON objects. Unknown fields are kept. Numbers that
-- may exceed 14 digits are strings, and no array is empty, because Lua would encode it as an object.
--   an attempt            run first count attempt claim token node catch_up started
--   … of an open run      expires, ms   lease, ms   stage = running | failed | interrupted | unbegun
--                         failures orphanings replaced cancelled declines   pool, unless it has none
--   … of a history        ended outcome detail

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
-- Numbers are formatted, never concatenated, because n..'' rounds to 14 digits. Commands are given strings. The time
-- is returned as an integer.
local function int(n) return string.format('%.0f', n) end
local function answer(...) return {now, ...} end

-- Returns the next revision of a group: at least the time in ms, so that a revision from before a loss of data never
-- recurs.
local function next_revision(revision) return math.max(tonumber(revision or 0) + 1, now_ms) end

-- Records the creation of a group. The revision is raised, so that each node reads it.
local function create(group)
  if not redis.call('HGET', group, 'created') then
    local revision = next_revision(redis.call('HGET', group, 'revision'))
    redis.call('HSET', group, 'created', int(now_ms), 'revision', int(revision))
  end
end

local function fields(key)
  local flat, of = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do of[flat[i]] = flat[i + 1] end
  return of
end

local function append_fields(reply, key)
  for field, value in pairs(fields(key)) do
    reply[#reply + 1] = field
    reply[#reply + 1] = value
  end
end

local function decode(text) return text and cjson.decode(text) end

-- Returns the time up to which nothing of a schedule is started.
local function decided(mark, since, schedule)
  local of = since and since[schedule]
  return math.max(tonumber(mark), of and tonumber(of.from) or 0)
end

-- Copies fields that a later version wrote when one record replaces another.
local function keep_unknown(before, record)
  for field, value in pairs(before) do
    if record[field] == nil then record[field] = value end
  end
end

-- Returns the time up to which a job is decided, or '' if it is unknown.
local function watermark(key, schedule)
  local mark = redis.call('HGET', key, 'mark')
  return mark and int(decided(mark, decode(redis.call('HGET', key, 'since')), schedule)) or ''
end

local function is_over(open) return now_ms > tonumber(open.expires) end

local function find_open(key, job, run) return decode(redis.call('HGET', key, job .. '\n' .. run)) end

local function write_open(key, job, open) redis.call('HSET', key, job .. '\n' .. open.run, cjson.encode(open)) end

-- Returns whether a claim names the current definition of a job: its revision, or '0' for a job that is not an instance.
local function is_defined_by(job, revision) return (job.instance or '0') == revision end

-- Returns whether an instance was to run once, and is decided or removed.
local function has_run_once(job)
  return job.once and (job.instance == '' or tonumber(job.mark) >= tonumber(job.once))
end

-- Records a change of an instance, and returns its revision. Changes are kept for a minute, at most 500.
local function record_change(group, changes, name)
  local revision = int(next_revision(redis.call('HGET', group, 'instances')))
  redis.call('HSET', group, 'instances', revision)
  redis.call('LPUSH', changes, revision .. ' ' .. name)
  redis.call('LTRIM', changes, '0', '499')
  local oldest = redis.call('LRANGE', changes, '-1', '-1')[1]
  while oldest and now_ms - tonumber(string.match(oldest, '^%d+')) > 60000 do
    redis.call('LTRIM', changes, '0', '-2')
    oldest = redis.call('LRANGE', changes, '-1', '-1')[1]
  end
  redis.call('PEXPIRE', changes, '60000')
  return revision
end

-- Removes the payload of a run, if it has one.
local function drop_payload(key, job, run) redis.call('HDEL', key, job .. '\n' .. run) end

-- Sets the payload of an instance, or removes it if it is empty. A longer one is only set if the total length stays
-- within `max`. Returns whether it was set.
local function set_payload(key, job, payload, max)
  local length = #(redis.call('HGET', key, job) or '')
  if length == 0 and payload == '' then return true end
  local bytes = tonumber(redis.call('HGET', key, '\nbytes') or 0) - length + #payload
  if #payload > length and bytes > max then return false end
  if payload == '' then redis.call('HDEL', key, job) else redis.call('HSET', key, job, payload) end
  if bytes > 0 then redis.call('HSET', key, '\nbytes', int(bytes)) else redis.call('HDEL', key, '\nbytes') end
  return true
end

-- Removes the definition of an instance and its payload, and returns whether there was one.
local function undefine(keys, name)
  redis.call('ZREM', keys.names, name)
  set_payload(keys.payloads, name, '', 0)
  if redis.call('HDEL', keys.instances, name) == 0 then return false end
  record_change(keys.group, keys.changes, name)
  return true
end

-- Withdraws the triggers and backfills of a job, and its controls if asked to. The revision of the group is raised if they changed.
local function drop_controls(group, payloads, name, with_controls)
  local dropped = with_controls and redis.call('HDEL', group, 'job:' .. name) == 1
  for field, text in pairs(fields(group)) do
    local can_wait = string.find(field, '^trigger:') or string.find(field, '^backfill:')
    if can_wait and cjson.decode(text).job == name then
      redis.call('HDEL', group, field)
      drop_payload(payloads, name, field)
      dropped = true
    end
  end
  if dropped then redis.call('HSET', group, 'revision', int(next_revision(redis.call('HGET', group, 'revision')))) end
end

-- Removes the definition of an instance that has run once, and has no open run. Its record expires.
local function conclude(keys, name, job)
  if not has_run_once(job) or job.open ~= '' then return end
  undefine(keys, name)
  redis.call('HDEL', keys.summaries, name)
  redis.call('HSET', keys.job, 'instance', '')
  redis.call('PEXPIRE', keys.job, job.kept)
  redis.call('PEXPIRE', keys.history, job.kept)
  drop_controls(keys.group, keys.payloads, name, true)
end

-- Decodes an entry of a history. An unreadable entry counts as empty, so that it does not stop a run.
local function recall(text)
  local readable, entry = pcall(cjson.decode, text)
  return readable and type(entry) == 'table' and entry or {}
end

-- Returns whether a run belongs to a backfill.
local function is_backfilled(run, backfill) return string.find(tostring(run or ''), backfill .. ':', 1, true) == 1 end

-- Counts the open runs of a job that belong to a backfill, also those without a node.
local function count_backfilled(job, backfill)
  local count = 0
  for id in string.gmatch(job.open or '', '%S+') do
    if is_backfilled(id, backfill) then count = count + 1 end
  end
  return count
end

-- Returns whether a history has an attempt of this run, and of this claim if one is given.
local function remembers(key, run, claim)
  for _, text in ipairs(redis.call('LRANGE', key, '0', '-1')) do
    local ended = recall(text)
    if ended.run == run and (not claim or ended.claim == claim) then return true end
  end
  return false
end

local function remember(key, entry, length)
  redis.call('LPUSH', key, cjson.encode(entry))
  redis.call('LTRIM', key, '0', int(math.max(tonumber(length), 1) - 1))
end

-- Adds an entry of the history to the summary of its job. A removed instance has no summary.
local function summarize(keys, job, entry)
  if redis.call('HGET', keys.job, 'instance') == '' then return end
  local summary = recall(redis.call('HGET', keys.summaries, job))
  local recent = summary.recent or ''
  local skipped = entry.outcome == 'skipped'
  if skipped and string.find(recent, '^skipped') then return end
  local words = {entry.outcome}
  for word in string.gmatch(recent, '%S+') do
    if #words < 20 then words[#words + 1] = word end
  end
  summary.recent = table.concat(words, ' ')
  if not skipped then
    local failed = {failed = true, panicked = true, timed_out = true, abandoned = true}
    if entry.outcome == 'succeeded' then
      summary.success, summary.failing = entry.ended, nil
    elseif failed[entry.outcome] then
      summary.failing = summary.failing or entry.ended
    end
    summary.last = entry
  end
  redis.call('HSET', keys.summaries, job, cjson.encode(summary))
end

local function ended(open, outcome, detail)
  local entry = {}
  for field, value in pairs(open) do entry[field] = value end
  for _, field in ipairs({'expires', 'lease', 'stage', 'failures', 'orphanings', 'replaced', 'cancelled', 'declines', 'pool'}) do
    entry[field] = nil
  end
  entry.ended, entry.outcome, entry.detail = int(now), outcome, detail
  return entry
end

-- Records a skip. Consecutive skips for the same reason share one entry.
local function remember_skip(key, skip, length)
  local last = recall(redis.call('LRANGE', key, '0', '0')[1])
  local count = tonumber(last.count)
  if count and last.outcome == 'skipped' and last.detail == skip.detail then
    skip.first, skip.count, skip.started = last.first, math.min(count + skip.count, 4294967295), last.started
    keep_unknown(last, skip)
    redis.call('LTRIM', key, '1', '-1')
  end
  remember(key, skip, length)
end

