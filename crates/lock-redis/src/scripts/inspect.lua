-- Reads the holder of a lock, its depth and the remaining lease.
--
-- KEYS 1 lock
--
-- replies, each after the server's time in µs:
--   free
--   held, lease id, depth, pttl
--   refused, error              the key is not a lock

--@include shared/now.lua
--@include shared/holder.lua

local lease, depth, err = holder(KEYS[1])
if err then return {now, 'refused', err} end
if not lease then return {now, 'free'} end
return {now, 'held', lease, depth, redis.call('PTTL', KEYS[1])}
