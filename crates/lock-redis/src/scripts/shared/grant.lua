-- The functions that a grant needs outside of the usual case.
--
-- Takes `redis` and `now`. Gives `int`, `hold` and `raise`.

-- Commands are given strings: Redis formats Lua numbers more slowly, and `n..''` rounds them to 14 digits. Each
-- string is made once, since the operations of a batch share numbers.
local texts = {}
local function int(n)
  local text = texts[n]
  if not text then
    text = string.format('%.0f', n)
    texts[n] = text
  end
  return text
end

-- Sets a lease of a lock with this PTTL, or extends its expiry. A failure is undone, since a lock without an expiry
-- would make others wait forever. Returns an error, or nothing.
local function hold(lock, lasts, lease, depth, duration)
  local free = lasts == -2
  if free then redis.call('HSET', lock, lease, depth) end
  if free or lasts < tonumber(duration) then
    local set = redis.pcall('PEXPIRE', lock, duration)
    if type(set) == 'table' then
      -- The key is deleted with its only field.
      if free then redis.call('HDEL', lock, lease) end
      return set.err
    end
  end
end

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
