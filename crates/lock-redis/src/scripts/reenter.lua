-- A re-entry: sets the depth of a lease that is still there. Creates nothing.
--
-- KEYS 1 lock
-- ARGV 1 lease id   2 lease, ms   3 depth   4 not after, µs
--
-- replies, each after the server's time in µs:
--   reentered
--   gone
--   late             executed after its time: nothing was done
--   refused, error   nothing was done
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local late = now > tonumber(ARGV[4])
now = string.format('%.0f', now)
if late then return {now, 'late'} end
local there = redis.pcall('HEXISTS', KEYS[1], ARGV[1])
if type(there) == 'table' then return {now, 'refused', there.err} end
if there == 0 then
  -- A write that changes nothing: a replica, whose data may be old, refuses it.
  redis.call('HDEL', KEYS[1], ARGV[1])
  return {now, 'gone'}
end
-- The expiry never falls: an inner guard with a short lease does not shorten the outer one.
local lasts = redis.call('PTTL', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
if lasts < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {now, 'reentered'}
