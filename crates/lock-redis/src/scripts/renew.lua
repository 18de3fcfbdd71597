-- Extends leases that are still there, each on its own: the failure of one does not touch another.
--
-- KEYS 1… locks
-- ARGV 3i-2 lease id   3i-1 lease, ms   3i not after, µs
--
-- reply: the server's time in µs, then for each lock: renewed | gone | late | an error text
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function renew(lock, lease, duration, not_after)
  if now > tonumber(not_after) then return 'late' end
  -- Each answer comes after a write: a replica, whose data may be old, refuses it.
  if redis.call('HEXISTS', lock, lease) == 0 then
    redis.call('HDEL', lock, lease)
    return 'gone'
  end
  -- The expiry never falls.
  local left = redis.call('PTTL', lock)
  if left >= tonumber(duration) then duration = string.format('%.0f', left) end
  redis.call('PEXPIRE', lock, duration)
  return 'renewed'
end

local reply = {now}
for i = 1, #KEYS do
  local ran, answer = pcall(renew, KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
  -- What was raised is a table since Redis 7, and a text before.
  if not ran and type(answer) == 'table' then answer = answer.err end
  reply[i + 1] = answer
end
return reply
