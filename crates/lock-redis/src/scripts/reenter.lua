-- A re-entry: sets the depth of a lease that still exists. Creates nothing.
--
-- KEYS 1 lock
-- ARGV 1 lease id   2 lease, ms   3 depth   4 not after, µs
--
-- reply in the usual case: the server's time in µs alone, which means `reentered`
--
-- other replies, each after the server's time in µs:
--   gone
--   late             executed after `not after`: nothing was done
--   refused, error   nothing was done

--@include shared/now.lua
local lock, lease, duration, depth, not_after = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if now > not_after + 0 then return {now, 'late'} end
local there = redis.pcall('HEXISTS', lock, lease)
if type(there) == 'table' then return {now, 'refused', there.err} end
if there == 0 then
  -- A write that changes nothing. A replica, whose data may be stale, refuses it.
  redis.call('HDEL', lock, lease)
  return {now, 'gone'}
end
-- The expiry never decreases: an inner guard with a short lease does not shorten the outer one.
local lasts = redis.call('PTTL', lock)
redis.call('HSET', lock, lease, depth)
if lasts < duration + 0 then redis.call('PEXPIRE', lock, duration) end
return now
