-- Lowers the depth of a lease, or frees the lock and wakes who waits.
--
-- KEYS 1 lock
-- ARGV 1 lease id   2 depth left   3 channel to publish on, or ''   4 1 if the channel is sharded, or ''
--
-- replies, each after the server's time in µs:
--   released, listeners   the lock is free; -1 listeners if nothing was published
--   kept                  the depth was lowered, the expiry is as it was
--   gone, other           the lease is not there; other is 1 if another holds the lock
--   refused, error        nothing was done
local function release(lock, lease, depth_left, channel, sharded)
  if depth_left ~= '0' then
    local there = redis.pcall('HEXISTS', lock, lease)
    -- Without the right to look, the lock must not be freed instead.
    if type(there) == 'table' then return 'refused', there.err end
    if there == 1 then
      redis.call('HSET', lock, lease, depth_left)
      return 'kept'
    end
  end
  -- A write, also where the lease is gone: a replica, whose data may be old, refuses it. The key ends with its last
  -- field; fields of others stay.
  local freed = redis.pcall('HDEL', lock, lease)
  if type(freed) == 'table' then return 'refused', freed.err end
  if freed == 0 then return 'gone', redis.call('EXISTS', lock) end
  -- A Java client that waits counts the payload down: it must be the number 0.
  local listeners = -1
  if channel ~= '' then
    listeners = sharded == '1' and redis.call('SPUBLISH', channel, '0') or redis.call('PUBLISH', channel, '0')
  end
  return 'released', listeners
end
