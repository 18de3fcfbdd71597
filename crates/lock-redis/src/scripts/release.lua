-- Lowers the depth of a lease, or releases the lock and wakes its waiters.
--
-- KEYS 1 lock
-- ARGV 1 lease id   2 depth left   3 channel to publish on, or ''   4 1 if the channel is sharded, otherwise left out
--
-- reply in the usual case: the server's time in µs alone, which means `released` with 0 listeners
--
-- other replies, each after the server's time in µs:
--   released, listeners   the lock is free; -1 listeners if nothing was published
--   kept                  the depth was lowered, the expiry is unchanged
--   gone, other           the lease does not exist; other is 1 if another lease holds the lock, or the key is no lock
--   refused, error        nothing was done

--@include shared/now.lua
local lock, lease, depth_left, channel, sharded = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if depth_left ~= '0' then
  local there = redis.pcall('HEXISTS', lock, lease)
  -- Without permission to read the depth, the lock must not be released instead.
  if type(there) == 'table' and not string.find(there.err, '^WRONGTYPE') then return {now, 'refused', there.err} end
  if there == 1 then
    redis.call('HSET', lock, lease, depth_left)
    return {now, 'kept'}
  end
end
-- A write even if the lease does not exist. A replica, whose data may be stale, refuses it. The key is deleted with
-- its last field; fields of others stay.
local freed = redis.pcall('HDEL', lock, lease)
if freed == 1 then
  if channel == '' then return {now, 'released', -1} end
  -- A waiting Java client counts down by the payload, which must be the number 0.
  local listeners = redis.call(sharded == '1' and 'SPUBLISH' or 'PUBLISH', channel, '0')
  if listeners == 0 then return now end
  return {now, 'released', listeners}
end
-- A key of another type has no lease.
if type(freed) == 'table' and not string.find(freed.err, '^WRONGTYPE') then return {now, 'refused', freed.err} end
return {now, 'gone', redis.call('EXISTS', lock)}
