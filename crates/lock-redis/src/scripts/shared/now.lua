-- The server's time, read once per script.
--
-- Gives `redis`, `time`, `now` in µs, and `LIMIT`.

-- A local variable is read faster than a global one.
local redis = redis
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- Lua numbers are exact below this.
local LIMIT = 9007199254740992
