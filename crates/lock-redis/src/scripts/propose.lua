-- Votes on a proposed token, as a node of a quorum.
--
-- KEYS 1 marker   2 lock: HASH {lease id: depth}, expiry = lease   3 fencing counter
-- ARGV 1 run id of the server   2 lease id   3 lease, ms   4 not after, µs   5 token   6 end of its range   7 least age, µs
--      8 retention, ms, at least 3000, or '' to keep the counter's expiry   9 floor, left out if there is none
--
-- replies, each after the server's time in µs, and with the age in µs behind the word:
--   granted                      the lock is ours, and the counter is at the end of the range
--   busy, pttl, counter, lease   another lease holds it, '' for what is no lock; a negative pttl is "unknown"
--   stale, counter               the token is not above the counter, whose retention may begin again
--   clock                        the token is too far from the clock
--   quarantined                  the node is too young to vote
--   late                         executed after its time
-- and without an age:
--   refused, error   a key holds something else, or a right is missing: nothing was done, except that a counter which is
--                    refused may lose its expiry where argument 8 is a retention
--   error, text      midway: the counter may have been written
local _, lock, counter = unpack(KEYS)
local _, lease, duration, not_after, token, last, min_age, retention, floor = unpack(ARGV)

if now > tonumber(not_after) then return {now, 'late', age} end
if age < tonumber(min_age) then return {now, 'quarantined', age} end

local lasts = redis.pcall('PTTL', lock)
local free = lasts == -2
local depth = not free and (type(lasts) == 'table' and lasts or redis.pcall('HGET', lock, lease))
if type(depth) == 'table' then return {now, 'refused', depth.err} end

-- The lock is mostly free, and the counter below a token near the clock: it is written while it is read.
local DISTANCE = 1000000
token, last = tonumber(token), tonumber(last)
local most = now + (retention == '' and 1000 or DISTANCE)
local writes = free and token > now - DISTANCE and last <= most and last < LIMIT
local old
if not writes then
  old = redis.pcall('GET', counter)
elseif retention ~= '' then
  old = redis.pcall('SET', counter, ARGV[6], 'PX', retention, 'GET')
else
  old = redis.pcall('SET', counter, ARGV[6], 'KEEPTTL', 'GET')
end
if type(old) == 'table' then return {now, 'refused', old.err} end
-- Digits only: `tonumber` alone reads '1e15' as well.
local count = not old and 0 or not string.find(old, '%D') and tonumber(old)

if not count or count >= LIMIT then
  if writes and retention ~= '' then redis.call('SET', counter, old) end
  if writes and retention == '' then redis.call('SET', counter, old, 'KEEPTTL') end
  return {now, 'refused', 'WRONGTYPE the fencing counter is no number below 2^53'}
end

if not free and not depth then
  -- A write that changes nothing: a replica, whose data may be old, refuses it.
  redis.call('HDEL', lock, lease)
  local held = redis.call('HLEN', lock) == 1 and redis.call('HGETALL', lock)[1] or ''
  return {now, 'busy', age, lasts, count, held}
end

local repeated = depth and count == last
if token <= count and not repeated then
  if writes then raise(counter, count, retention) end
  -- No lease is called so.
  redis.call('HDEL', lock, '')
  return {now, 'stale', age, count}
end
if not writes and not repeated then
  -- A client whose clock is years ahead would otherwise lift every counter for ever, and one that is behind would take
  -- tokens that were given out before a loss of the counter.
  local highest = math.max(count, now, floor and tonumber(floor) or 0) + DISTANCE
  if token <= now - DISTANCE or token > highest or last > highest or last >= LIMIT then
    return {now, 'clock', age}
  end
  raise(counter, last, retention)
end

local failed = hold(lock, lasts, lease, '1', duration)
if failed then return {now, 'error', failed} end
return {now, 'granted', age}
