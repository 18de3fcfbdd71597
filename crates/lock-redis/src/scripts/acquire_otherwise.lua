-- The rest of `acquire.lua`.

if now > not_after + 0 then return {now, 'late'} end
if not free then
  local depth = type(lasts) == 'table' and lasts or redis.pcall('HGET', lock, lease)
  if type(depth) == 'table' then
    local expires = type(lasts) == 'number' and lasts >= 0
    if expires and type(redis.pcall('GET', lock)) == 'string' then
      -- A write that fails everywhere. A replica, whose data may be stale, has another error.
      local write = redis.pcall('HDEL', lock, lease)
      if string.find(write.err, '^WRONGTYPE') then return {now, 'foreign', lasts} end
      return {now, 'refused', write.err}
    end
    return {now, 'refused', depth.err}
  end
  if not depth then
    -- A write that changes nothing. A replica, whose data may be stale, refuses it.
    redis.call('HDEL', lock, lease)
    return {now, 'busy', lasts}
  end
end

if not writes then old = redis.pcall('GET', counter) end
if type(old) == 'table' then return {now, 'refused', old.err} end
-- Digits only, since `tonumber` alone also reads '1e15'.
local count = old and not string.find(old, '%D') and tonumber(old)
local first, last, refused
if old and not (count and count < LIMIT) then
  refused = 'WRONGTYPE the fencing counter is not a number below 2^53'
else
  -- The counter never runs more than 1 ms ahead of the clock, and a missing one starts that far ahead. Tokens thus
  -- increase even if the counter is lost. Only a floor sets it further ahead; it then lives until the clock has caught
  -- up.
  first = count and math.max(count + 1, now) or now + 1000
  if floor then first = math.max(first, tonumber(floor) + 1) end
  last = math.max(first, math.min(first + reserve, now + 1000))
  if last >= LIMIT then refused = 'TOKENS the next fencing token would not be below 2^53' end
end
if refused then
  if writes then redis.call('SET', counter, old, 'KEEPTTL') end
  return {now, 'refused', refused}
end

local renews = window and not (count and count - count % window == now - now % window)
if count and renews then renews = redis.call('PTTL', counter) >= 0 end
raise(counter, last, renews and retention or '')
local failed = hold(lock, lasts, lease, '1', duration)
if failed then return {now, 'error', failed} end
-- Our counters hold a time in µs.
return {now, 'granted', first, last, count and count < now / 2 and 1 or 0}
