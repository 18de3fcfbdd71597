-- Sets the counter and its retention in ms, or keeps its expiry if the retention is ''. A counter far ahead of the
-- clock lives until the clock has caught up.
local function raise(counter, last, retention)
  local ahead = last > now + 1000 and math.floor(last / 1000) - math.floor(now / 1000) + 2 or 0
  if retention ~= '' then
    if ahead > tonumber(retention) then retention = int(ahead) end
    redis.call('SET', counter, int(last), 'PX', retention)
  else
    redis.call('SET', counter, int(last), 'KEEPTTL')
    local left = ahead > 0 and redis.call('PTTL', counter) or -1
    if left >= 0 and left < ahead then redis.call('PEXPIRE', counter, int(ahead)) end
  end
end

