-- Who holds a lock, at which depth, for how long.
--
-- KEYS 1 lock
--
-- replies, each after the server's time in µs:
--   free
--   held, lease id, depth, pttl
--   refused, error
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local held = redis.pcall('HGETALL', KEYS[1])
if held.err then return {now, 'refused', held.err} end
if #held == 0 then return {now, 'free'} end
return {now, 'held', held[1], held[2], redis.call('PTTL', KEYS[1])}
