-- Votes on a proposed token, as a node of a quorum.
--
-- KEYS 1 lock: HASH {lease id: depth}, expiry = lease   2 fencing counter   3 marker, left out if any age is enough
-- ARGV 1 lease id   2 lease, ms   3 not after, µs   4 end of the range of tokens
--      5 retention, ms, at least 3000, or '' to keep the counter's expiry
--      6 run id of the server, or the whole marker if it is known to be old enough, or ''   7 least age, µs, or ''
--      8 token, or '' if the range is one token   9 floor or ''
--      Arguments from 6 on are left out at the end if they are empty: each word costs Redis a third of a command.
--
-- reply in the usual case: the server's time in µs alone, which means `granted`
--
-- other replies, each after the server's time in µs, and with the age in µs behind the word, or 0 without a marker:
--   granted                      the lease holds the lock, and the counter is at the end of the range
--   busy, pttl, counter, lease   another lease holds the lock; lease is '' if the key is not a lock, and a negative pttl
--                                means unknown
--   stale, counter               the token is not above the counter, whose retention may have been renewed
--   clock                        the token is too far from the clock
--   quarantined                  the node has not kept its data for long enough to vote
--   late                         executed after `not after`: nothing was done
-- and without an age:
--   refused, error   a key holds something else, or a permission is missing: nothing was done, except that an invalid
--                    counter may have lost its expiry if argument 5 is a retention
--   error, text      failed midway: the counter may have been written

--@include shared/now.lua
local lock, counter, marker = KEYS[1], KEYS[2], KEYS[3]
local lease, duration, not_after, last_text, retention = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- A node that was once old enough is so until its marker changes.
local proved = not marker or redis.pcall('GET', marker) == ARGV[6]
local lasts = redis.pcall('PTTL', lock)
local free = lasts == -2
-- In the usual case, the token is near the clock.
local DISTANCE = 1000000
local last = last_text + 0
local token = (ARGV[8] or '') == '' and last or ARGV[8] + 0
local most = now + (retention == '' and 1000 or DISTANCE)
local writes = free and proved and now <= not_after + 0
  and token > now - DISTANCE and last <= most and last < LIMIT

-- The usual case: the lock is free, and its counter is a time in µs below the token. One command reads the old counter
-- and writes the new one. Each grant renews the expiry of the counter, which rules out lower tokens.
local old
if writes then
  if retention ~= '' then
    old = redis.pcall('SET', counter, last_text, 'PX', retention, 'GET')
  else
    old = redis.pcall('SET', counter, last_text, 'KEEPTTL', 'GET')
  end
  -- The times from 2001 to 2286 have 16 digits. Any other text is checked below.
  local count = old and #old == 16 and tonumber(old)
  if count and count >= 1000000000000000 and count < token then
    redis.call('HSET', lock, lease, '1')
    if redis.pcall('PEXPIRE', lock, duration) == 1 then return now end
    -- A lock without an expiry would make others wait forever. `hold` tries again, and returns the error.
    redis.call('HDEL', lock, lease)
  end
end

-- All other cases. The functions are created only here, since that takes time.
--@include shared/node.lua
--@include shared/grant.lua
local age = 0
if marker then
  local known, unknown = age_of(marker, string.match(ARGV[6], '^%S+'))
  if unknown then return {now, 'refused', unknown} end
  age = known
end
if now > not_after + 0 then return {now, 'late', age} end
if not proved and age < tonumber(ARGV[7]) then return {now, 'quarantined', age} end

local depth = not free and (type(lasts) == 'table' and lasts or redis.pcall('HGET', lock, lease))
if type(depth) == 'table' then return {now, 'refused', depth.err} end
if not writes then old = redis.pcall('GET', counter) end
if type(old) == 'table' then return {now, 'refused', old.err} end
-- Only digits are allowed. `tonumber` alone would also accept '1e15'.
local count = not old and 0 or not string.find(old, '%D') and tonumber(old)
if not count or count >= LIMIT then
  if writes and retention ~= '' then redis.call('SET', counter, old) end
  if writes and retention == '' then redis.call('SET', counter, old, 'KEEPTTL') end
  return {now, 'refused', 'WRONGTYPE the fencing counter is not a number below 2^53'}
end

if not free and not depth then
  -- This write changes nothing. A replica, whose data may be stale, refuses it.
  redis.call('HDEL', lock, lease)
  local held = redis.call('HLEN', lock) == 1 and redis.call('HGETALL', lock)[1] or ''
  return {now, 'busy', age, lasts, count, held}
end

local repeated = depth and count == last
if token <= count and not repeated then
  if writes then raise(counter, count, retention) end
  -- This write changes nothing, since no lease id is ''. A replica refuses it.
  redis.call('HDEL', lock, '')
  return {now, 'stale', age, count}
end
if not writes and not repeated then
  -- Without these limits, a client whose clock is years ahead would raise every counter forever, and a client whose
  -- clock is behind could get tokens that were granted before the counter was lost.
  local highest = math.max(count, now, tonumber(ARGV[9] or '') or 0) + DISTANCE
  if token <= now - DISTANCE or token > highest or last > highest or last >= LIMIT then
    return {now, 'clock', age}
  end
  raise(counter, last, retention)
end

local failed = hold(lock, lasts, lease, '1', duration)
if failed then return {now, 'error', failed} end
return {now, 'granted', age}
