-- Sets a lease again on a quorum node that lost it while a majority kept it.
--
-- KEYS 1 lock   2 fencing counter   3 marker
-- ARGV 1 run id of the server   2 lease id   3 lease, ms   4 not after, µs   5 depth   6 end of its token range
--      7 retention, ms, or '' to keep the counter's expiry
--
-- replies, each after the server's time in µs, and with the age in µs behind the word:
--   set    the node has the lease, and the counter is not below the end of the range
--   busy   another lease holds the lock: nothing was done
--   late   executed after `not after`: nothing was done
-- and without an age:
--   refused, error   a key holds something else, or a permission is missing: nothing was done
--   error, text      failed midway: the counter may have been written

--@include shared/now.lua
--@include shared/node.lua
--@include shared/grant.lua

local lock, counter, marker = unpack(KEYS)
local run, lease, duration, not_after, depth, last, retention = unpack(ARGV)

local age, unknown = age_of(marker, run)
if unknown then return {now, 'refused', unknown} end
if now > tonumber(not_after) then return {now, 'late', age} end
local text = redis.pcall('GET', counter)
if type(text) == 'table' then return {now, 'refused', text.err} end
local count = not text and 0 or not string.find(text, '%D') and tonumber(text)
if not count or count >= LIMIT then
  return {now, 'refused', 'WRONGTYPE the fencing counter is not a number below 2^53'}
end
local lasts = redis.pcall('PTTL', lock)
local there = lasts ~= -2 and (type(lasts) == 'table' and lasts or redis.pcall('HGET', lock, lease))
if type(there) == 'table' then return {now, 'refused', there.err} end
if lasts ~= -2 and not there then
  -- This write changes nothing. A replica, whose data may be stale, refuses it.
  redis.call('HDEL', lock, lease)
  return {now, 'busy', age}
end

raise(counter, math.max(count, tonumber(last)), retention)
local failed = hold(lock, lasts, lease, depth, duration)
if failed then return {now, 'error', failed} end
return {now, 'set', age}
