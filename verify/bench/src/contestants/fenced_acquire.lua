-- KEYS[1] the lock · KEYS[2] its fencing counter · ARGV[1] owner, [2] lease in ms, [3] retention of the counter in ms
-- the token, which is the server's time in µs · nil: held
local time = redis.call('TIME')
if redis.call('PTTL', KEYS[1]) ~= -2 then
    return nil
end
local token = time[1] * 1000000 + time[2]
local last = redis.call('SET', KEYS[2], string.format('%.0f', token), 'PX', ARGV[3], 'GET')
if last and tonumber(last) >= token then
    return redis.error_reply('the clock went back')
end
redis.call('HSET', KEYS[1], ARGV[1], '1')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return token
