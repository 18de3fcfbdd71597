-- Takes a free lock in the usual case: its counter is a time in µs below the token. One command reads the old counter
-- and writes the new one, unless `writes` is false.
local old
if writes then
  if retention ~= '' and not window then
    old = redis.pcall('SET', counter, last_text, 'PX', retention, 'GET')
  else
    old = redis.pcall('SET', counter, last_text, 'KEEPTTL', 'GET')
  end
  -- The times from 2001 to 2286 have 16 digits. Any other text is checked below.
  local count = old and #old == 16 and tonumber(old)
  if count and count >= 1000000000000000 and count < token then
    -- With a window, the expiry is renewed once in each. A counter without an expiry, like one that Redisson created,
    -- keeps none.
    if window and count - count % window ~= now - now % window and redis.call('PTTL', counter) >= 0 then
      redis.call('PEXPIRE', counter, retention)
    end
    redis.call('HSET', lock, lease, '1')
    if redis.pcall('PEXPIRE', lock, duration) == 1 then return now end
    -- A lock without an expiry would make others wait forever. `hold` tries again, and returns the error.
    redis.call('HDEL', lock, lease)
  end
end
