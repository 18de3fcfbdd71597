-- KEYS[1] the lock · ARGV[1] owner, [2] lease in ms, [3] channel of the lock
-- nil: not held by this owner · 0: still held · 1: released
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[3], '0')
return 1
