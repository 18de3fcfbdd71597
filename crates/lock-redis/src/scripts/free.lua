-- Releases a lease on a node of a quorum, and wakes the waiters.
--
-- KEYS 1 lock
-- ARGV 1 lease id   2 channel to publish on, left out to wake nobody
--
-- reply in the usual case: the number of listeners, or -1 if nothing was published; the lock is free
--
-- other replies, each after the server's time in µs, which only these need:
--   gone, other      the lease does not exist; other is 1 if another lease holds the lock, or the key is no lock
--   refused, error   nothing was done
local lock, lease, channel = KEYS[1], ARGV[1], ARGV[2]

-- The key is deleted with its last field; fields of others stay.
local freed = redis.pcall('HDEL', lock, lease)
if freed == 1 then return channel and redis.call('PUBLISH', channel, '0') or -1 end

-- All other cases.
--@include shared/now.lua
-- A key of another type has no lease.
if type(freed) == 'table' and not string.find(freed.err, '^WRONGTYPE') then return {now, 'refused', freed.err} end
return {now, 'gone', redis.call('EXISTS', lock)}
