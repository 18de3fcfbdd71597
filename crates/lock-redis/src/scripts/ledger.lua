-- What the scripts of the run ledger share; it stands before each of them.
--
-- job: HASH   mark = the watermark, ms   token = the last fencing token   open = its open runs, separated by spaces
--             since = JSON object: fingerprint of a schedule → {from, seen}, ms; seen on the clock `led` of its group
-- open runs of a group: HASH   "<job>\n<run>" = an attempt
-- history of a job: LIST of attempts and rows of skips, the newest first
-- group: HASH   revision   seen = the last registration, ms   led = how long it had leaders, ms
--               job:<job> = {revision, paused, schedule}   trigger:<uuid> = {job, given, until}, µs
--
-- Attempts, controls and triggers are JSON objects. Unknown fields are kept. Numbers that may exceed 14 digits are texts,
-- and no array is empty: Lua would write it as an object.
--   an attempt            run first count attempt claim token node catch_up started
--   … of an open run      expires, ms   lease, ms   stage = running | failed | interrupted | unbegun
--                         failures orphanings replaced
--   … of a history        ended outcome detail

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
-- Numbers are formatted, never concatenated: n..'' rounds to 14 digits. Commands are given text, and the time is answered
-- as the integer that it is.
local function int(n) return string.format('%.0f', n) end
local function answer(...) return {now, ...} end

-- The next revision of a group: at least now, so that after a loss of the data it is none that a node knows from before.
local function next_revision(revision) return math.max(tonumber(revision or 0) + 1, now_ms) end

local function fields(key)
  local flat, of = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do of[flat[i]] = flat[i + 1] end
  return of
end

local function decode(text) return text and cjson.decode(text) end

-- The time up to which nothing of a schedule is started.
local function decided(mark, since, schedule)
  local of = since and since[schedule]
  return math.max(tonumber(mark), of and tonumber(of.from) or 0)
end

-- Fields that a later version wrote stay when a record takes the place of another.
local function keep_unknown(before, record)
  for field, value in pairs(before) do
    if record[field] == nil then record[field] = value end
  end
end

local function is_over(open) return now_ms > tonumber(open.expires) end

local function find_open(key, job, run) return decode(redis.call('HGET', key, job .. '\n' .. run)) end

local function write_open(key, job, open) redis.call('HSET', key, job .. '\n' .. open.run, cjson.encode(open)) end

-- An entry of a history. One that cannot be read is like none: it stops no run.
local function recall(text)
  local readable, entry = pcall(cjson.decode, text)
  return readable and type(entry) == 'table' and entry or {}
end

-- Whether a history has an attempt of that run, of that claim if one is given.
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

local function ended(open, outcome, detail)
  local entry = {}
  for field, value in pairs(open) do entry[field] = value end
  for _, field in ipairs({'expires', 'lease', 'stage', 'failures', 'orphanings', 'replaced'}) do entry[field] = nil end
  entry.ended, entry.outcome, entry.detail = int(now), outcome, detail
  return entry
end

-- Skips for one reason that follow one another are one entry.
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

