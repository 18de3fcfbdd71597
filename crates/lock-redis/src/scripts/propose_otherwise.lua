-- The rest of `propose.lua`. The usual case returns before it, and so never creates the functions that only this part
-- needs.

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
  local highest = math.max(count, now, floor and tonumber(floor) or 0) + DISTANCE
  if token <= now - DISTANCE or token > highest or last > highest or last >= LIMIT then
    return {now, 'clock', age}
  end
  raise(counter, last, retention)
end

local failed = hold(lock, lasts, lease, '1', duration)
if failed then return {now, 'error', failed} end
return {now, 'granted', age}
