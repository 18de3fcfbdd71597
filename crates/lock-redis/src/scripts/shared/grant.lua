-- The functions that a grant needs outside of the usual case.
--
-- Takes `redis`, `now` and `LIMIT`. Gives `int`, `hold`, `next_tokens` and `advance`.

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

-- Returns the next token, the last of up to `reserve` further ones, and the old count; or nil and an error. `old` is the
-- text of the counter, if there is one.
local function next_tokens(old, reserve, floor)
  -- Digits only, since `tonumber` alone also reads '1e15'.
  local count = old and not string.find(old, '%D') and tonumber(old)
  if old and not (count and count < LIMIT) then
    return nil, 'WRONGTYPE the fencing counter is not a number below 2^53'
  end
  -- The counter never runs more than 1 ms ahead of the clock, and a missing one starts that far ahead. Tokens thus
  -- increase even if the counter is lost. Only a floor sets it further ahead; it then lives until the clock has caught
  -- up.
  local first = count and math.max(count + 1, now) or now + 1000
  if floor then first = math.max(first, tonumber(floor) + 1) end
  local last = math.max(first, math.min(first + reserve, now + 1000))
  if last >= LIMIT then return nil, 'TOKENS the next fencing token would not be below 2^53' end
  return first, last, count
end

-- Sets the counter to the last token. The first grant in each eighth of the retention renews the expiry of the counter.
local function advance(counter, last, count, retention)
  local window = retention ~= '' and retention * 125
  local renews = window and not (count and count - count % window == now - now % window)
  if count and renews then renews = redis.call('PTTL', counter) >= 0 end
  raise(counter, last, renews and retention or '')
end
