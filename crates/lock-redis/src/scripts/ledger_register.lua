-- Registers jobs. The watermark of a new job and the start of a new schedule are now. The same holds for the start of
-- a schedule whose job was absent while others of its group were present.
--
-- KEYS 1 group   2… jobs
-- ARGV 1 absence, ms   2 maximum number of schedules of a job   3… fingerprint of each job's schedule
--
-- reply: the server's time in µs, `registered`, then for each job: new | existing, the time up to which it is decided, ms

--@include shared/ledger.lua

create(KEYS[1])
-- `led` counts the time with leaders. An outage of all nodes, or a step of the clock, makes no job absent.
local led = tonumber(redis.call('HGET', KEYS[1], 'led') or 0)
local silent = math.max(now_ms - tonumber(redis.call('HGET', KEYS[1], 'seen') or 0), 0)
if silent <= tonumber(ARGV[1]) then led = led + silent end
redis.call('HSET', KEYS[1], 'seen', int(now_ms), 'led', int(led))
local reply = answer('registered')
for i = 2, #KEYS do
  local mark, schedule = redis.call('HGET', KEYS[i], 'mark'), ARGV[i + 1]
  local since = decode(redis.call('HGET', KEYS[i], 'since')) or {}
  reply[#reply + 1] = mark and 'existing' or 'new'
  mark = mark or int(now_ms)
  local of = since[schedule] or {from = int(now_ms), seen = int(led)}
  if led - tonumber(of.seen) > tonumber(ARGV[1]) then of.from = int(now_ms) end
  of.seen, since[schedule] = int(led), of
  local others = {}
  for fingerprint in pairs(since) do
    if fingerprint ~= schedule then others[#others + 1] = fingerprint end
  end
  table.sort(others, function(a, b)
    local x, y = tonumber(since[a].seen), tonumber(since[b].seen)
    return x < y or (x == y and a < b)
  end)
  for n = 1, #others + 1 - tonumber(ARGV[2]) do since[others[n]] = nil end
  redis.call('HSET', KEYS[i], 'mark', mark, 'since', cjson.encode(since))
  reply[#reply + 1] = int(decided(mark, since, schedule))
end
return reply
