-- Votes on a proposed token, as a node of a quorum.
--
-- KEYS 1 marker   2 lock: HASH {lease id: depth}, expiry = lease   3 fencing counter
-- ARGV 1 run id of the server   2 lease id   3 lease, ms   4 not after, µs   5 token   6 end of its range   7 floor or ''
--      8 least age, µs   9 retention, ms, or '' to keep the counter's expiry
--
-- replies, each after the server's time in µs, and with the age in µs behind the word:
--   granted                      the lock is ours, and the counter is at the end of the range
--   busy, pttl, counter, lease   another lease holds it, '' for what is no lock; a negative pttl is "unknown"
--   stale, counter               the token is not above the counter
--   clock                        the token is too far from the clock
--   quarantined                  the node is too young to vote
--   late                         executed after its time
-- and without an age:
--   refused, error   a key holds something else, or a right is missing: nothing was done
--   error, text      midway: the counter may have been written
local marker, lock, counter = unpack(KEYS)
local run, lease, duration, not_after, token, last, floor, min_age, retention = unpack(ARGV)

local age, lasts, other, count, err
age, err = kept_for(marker, run)
if err then return {now, 'refused', err} end
if now > tonumber(not_after) then return {now, 'late', age} end
if age < tonumber(min_age) then return {now, 'quarantined', age} end
count, err = count_of(counter)
if err then return {now, 'refused', err} end
lasts, other, err = look(lock, lease)
if err then return {now, 'refused', err} end

if other then
  -- A write that changes nothing: a replica, whose data may be old, refuses it.
  redis.call('HDEL', lock, lease)
  local held = redis.call('HLEN', lock) == 1 and redis.call('HGETALL', lock)[1] or ''
  return {now, 'busy', age, lasts, count, held}
end

token, last = tonumber(token), tonumber(last)
local repeated = lasts ~= -2 and count == last
if not repeated then
  if token <= count then
    -- No lease is called so.
    redis.call('HDEL', lock, '')
    return {now, 'stale', age, count}
  end
  -- A client whose clock is years ahead would otherwise lift every counter for ever, and one that is behind would take
  -- tokens that were given out before a loss of the counter.
  local DISTANCE = 1000000
  local highest = math.max(count, now, tonumber(floor) or 0) + DISTANCE
  if token <= now - DISTANCE or token > highest or last > highest or last >= LIMIT then
    return {now, 'clock', age}
  end
  raise(counter, last, retention)
end

err = hold(lock, lasts, lease, '1', duration)
if err then return {now, 'error', err} end
return {now, 'granted', age}
