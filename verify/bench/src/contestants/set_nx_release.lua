-- KEYS[1] the lock · ARGV[1] owner
-- 0: not held by this owner · 1: released
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
