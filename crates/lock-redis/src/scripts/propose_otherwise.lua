-- The rest of `propose.lua`.

local age = 0
if marker then
  local known, unknown = age_of(marker, string.match(ARGV[6], '^%S+'))
  if unknown then return {now, 'refused', unknown} end
  age = known
end
if now > not_after + 0 then return {now, 'late', age} end
if not proved and age < tonumber(ARGV[7]) then return {now, 'quarantined', age} end

local depth = not free and (type(lasts) == 'table' and lasts or redis.pcall('HGET', lock, lease))
if type(depth) == 'table' then return {now, 'refused', depth.err} end
if not writes then old = redis.pcall('GET', counter) end
if type(old) == 'table' then return {now, 'refused', old.err} end
-- Only digits are allowed. `tonumber` alone would also accept '1e15'.
local count = not old and 0 or not string.find(old, '%D') and tonumber(old)
if not count or count >= LIMIT then
  if writes and retention ~= '' then redis.call('SET', counter, old) end
  if writes and retention == '' then redis.call('SET', counter, old, 'KEEPTTL') end
  return {now, 'refused', 'WRONGTYPE the fencing counter is not a number below 2^53'}
end

if not free and not depth then
  -- This write changes nothing. A replica, whose data may be stale, refuses it.
  redis.call('HDEL', lock, lease)
  local held = redis.call('HLEN', lock) == 1 and redis.call('HGETALL', lock)[1] or ''
  return {now, 'busy', age, lasts, count, held}
end

local repeated = depth and count == last
if token <= count and not repeated then
  if writes then raise(counter, count, retention) end
  -- This write changes nothing, since no lease id is ''. A replica refuses it.
  redis.call('HDEL', lock, '')
  return {now, 'stale', age, count}
end
if not writes and not repeated then
  -- Without these limits, a client whose clock is years ahead would raise every counter forever, and a client whose
  -- clock is behind could get tokens that were granted before the counter was lost.
  local highest = math.max(count, now, tonumber(ARGV[9] or '') or 0) + DISTANCE
  if token <= now - DISTANCE or token > highest or last > highest or last >= LIMIT then
    return {now, 'clock', age}
  end
  raise(counter, last, retention)
end

local failed = hold(lock, lasts, lease, '1', duration)
if failed then return {now, 'error', failed} end
return {now, 'granted', age}
