-- Releases a lock if the lease that was seen still holds it. A repeat does not release a later lease, and a key that
-- is not a lock is not deleted. A process that hands its lease from task to task keeps the lease id: the release ends
-- the hold of the task that has it now.
--
-- KEYS 1 lock
-- ARGV 1 lease id that was seen   2 channel   3 1 if the channel is sharded, or ''
--
-- replies, each after the server's time in µs:
--   forced
--   changed
--   refused, error   nothing was done

--@include shared/now.lua
--@include shared/holder.lua

local _, _, err = holder(KEYS[1])
if err then return {now, 'refused', err} end
-- A write even if another lease holds the lock. A replica, whose data may be stale, refuses it. The key is deleted
-- with its only field.
local freed = redis.pcall('HDEL', KEYS[1], ARGV[1])
if type(freed) == 'table' then return {now, 'refused', freed.err} end
if freed == 0 then return {now, 'changed'} end
if ARGV[3] == '1' then redis.call('SPUBLISH', ARGV[2], '0') else redis.call('PUBLISH', ARGV[2], '0') end
return {now, 'forced'}
