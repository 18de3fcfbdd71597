-- Gives an order for a job. What was missed under the orders before it stays missed: the watermark is raised to now.
--
-- KEYS 1 job   2 orders of its group   3 open runs of its group   4 its history
-- ARGV 1 job   2 pause | resume | replace | restore | trigger   3 schedule, or trigger:<uuid>   4 most triggers
--
-- replies, each after the server's time in µs:
--   accepted, revision of the group
--   unregistered   full
local name, order, value = ARGV[1], ARGV[2], ARGV[3]
local mark = redis.call('HGET', KEYS[1], 'mark')
if not mark then return answer('unregistered') end
local orders = fields(KEYS[2])
local revision = tonumber(orders.revision or 0)

if order == 'trigger' then
  -- An order that is delivered twice, far apart, was carried out in between.
  if not orders[value] and not find_open(KEYS[3], name, value) and not find_ended(KEYS[4], value) then
    local waiting = 0
    for field in pairs(orders) do
      if string.find(field, '^trigger:') then waiting = waiting + 1 end
    end
    if waiting >= tonumber(ARGV[4]) then return answer('full') end
    revision = revision + 1
    redis.call('HSET', KEYS[2], 'revision', int(revision), value, int(now) .. ' ' .. name)
  end
  return answer('accepted', int(revision))
end

local paused, schedule = orders['paused:' .. name], orders['schedule:' .. name]
local same = order == 'pause' and paused or order == 'resume' and not paused
  or order == 'replace' and schedule == value or order == 'restore' and not schedule
if not same then
  revision = revision + 1
  redis.call('HSET', KEYS[2], 'revision', int(revision), 'revision:' .. name, int(revision))
  if order == 'pause' then redis.call('HSET', KEYS[2], 'paused:' .. name, '1') end
  if order == 'resume' then redis.call('HDEL', KEYS[2], 'paused:' .. name) end
  if order == 'replace' then redis.call('HSET', KEYS[2], 'schedule:' .. name, value) end
  if order == 'restore' then redis.call('HDEL', KEYS[2], 'schedule:' .. name) end
  if order ~= 'pause' and now_ms > tonumber(mark) then redis.call('HSET', KEYS[1], 'mark', int(now_ms)) end
end
return answer('accepted', int(revision))
