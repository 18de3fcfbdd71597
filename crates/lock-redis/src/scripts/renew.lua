-- Extends a lease that still exists.
--
-- KEYS 1 lock
-- ARGV 1 lease id   2 lease, ms   3 not after, µs
--
-- reply of a single renewal in the usual case: the server's time in µs alone, which means `renewed`
--
-- other replies, each after the server's time in µs:
--   renewed
--   gone
--   late             executed after `not after`: nothing was done
local function renew(lock, lease, duration, not_after)
  if now > tonumber(not_after) then return 'late' end
  -- Each reply follows a write. A replica, whose data may be stale, refuses it.
  if redis.call('HEXISTS', lock, lease) == 0 then
    redis.call('HDEL', lock, lease)
    return 'gone'
  end
  -- The expiry never decreases.
  local left = redis.call('PTTL', lock)
  if left >= tonumber(duration) then duration = int(left) end
  redis.call('PEXPIRE', lock, duration)
  return 'renewed'
end
