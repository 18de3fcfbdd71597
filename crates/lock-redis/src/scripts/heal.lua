-- Sets a lease that a node of a quorum lost while a majority kept it.
--
-- KEYS 1 marker   2 lock   3 fencing counter
-- ARGV 1 run id of the server   2 lease id   3 lease, ms   4 not after, µs   5 depth   6 end of its token range
--      7 retention, ms, or '' to keep the counter's expiry
--
-- replies, each after the server's time in µs, and with the age in µs behind the word:
--   set    the lease is there, and the counter is not below the end of the range
--   busy   another lease holds the lock: nothing was done
--   late   executed after its time: nothing was done
-- and without an age:
--   refused, error   a key holds something else, or a right is missing: nothing was done
--   error, text      midway: the counter may have been written
local marker, lock, counter = unpack(KEYS)
local run, lease, duration, not_after, depth, last, retention = unpack(ARGV)

local age, lasts, other, count, err
age, err = kept_for(marker, run)
if err then return {now, 'refused', err} end
if now > tonumber(not_after) then return {now, 'late', age} end
count, err = count_of(counter)
if err then return {now, 'refused', err} end
lasts, other, err = look(lock, lease)
if err then return {now, 'refused', err} end
if other then
  -- A write that changes nothing: a replica, whose data may be old, refuses it.
  redis.call('HDEL', lock, lease)
  return {now, 'busy', age}
end

raise(counter, math.max(count, tonumber(last)), retention)
err = hold(lock, lasts, lease, depth, duration)
if err then return {now, 'error', err} end
return {now, 'set', age}
