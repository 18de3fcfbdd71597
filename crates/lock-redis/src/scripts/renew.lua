-- Extends a lease that still exists.
--
-- KEYS 1 lock
-- ARGV 1 lease id   2 lease, ms   3 not after, µs
--
-- reply in the usual case: the server's time in µs alone, which means `renewed`
--
-- other replies, each after the server's time in µs:
--   gone
--   late             executed after `not after`: nothing was done

--@include shared/now.lua
local lock, lease, duration, not_after = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if now > not_after + 0 then return {now, 'late'} end
-- Each reply follows a write. A replica, whose data may be stale, refuses it.
if redis.call('HEXISTS', lock, lease) == 0 then
  redis.call('HDEL', lock, lease)
  return {now, 'gone'}
end
-- The expiry never decreases.
local left = redis.call('PTTL', lock)
if left >= duration + 0 then duration = string.format('%.0f', left) end
redis.call('PEXPIRE', lock, duration)
return now
