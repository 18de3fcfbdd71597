-- Takes a lock, or grants it again to a repeat by the same lease id.
--
-- KEYS 1 lock: HASH {lease id: depth}, expiry = lease
--      2 fencing counter: STRING, the last token granted or reserved
-- ARGV 1 lease id   2 lease, ms   3 not after, µs   4 retention, ms, or '' to keep the counter's expiry
--      5 reserve   6 floor or ''; both are left out if the reserve is 0 and there is no floor
--
-- reply of a single acquire in the usual case: the server's time in µs alone, which means `granted`. It is the first token;
-- the last is ahead of it by the reserve, at most 1000, and the counter was a time.
--
-- other replies, each after the server's time in µs:
--   granted, first, last, foreign   the lock is held by this lease id, even after a repeat, which gets new tokens; foreign
--                            is 1 if the counter was not a time, like one that Redisson created, else 0
--   busy, pttl               another lease holds it; a negative pttl means unknown
--   foreign, pttl            the key is a string with this expiry, as other lock implementations store it
--   late                     executed after `not after`: nothing was done
--   refused, error           a key has another type, or a permission is missing: nothing was done, except that an invalid
--                            counter may lose its expiry if argument 4 is a retention
--   error, text              failed midway: a counter may have been written
local function acquire(lock, counter, lease, duration, not_after, retention, reserve, floor)
  if now > tonumber(not_after) then return 'late' end

  local lasts = redis.pcall('PTTL', lock)
  local free = lasts == -2
  if not free then
    local depth = type(lasts) == 'table' and lasts or redis.pcall('HGET', lock, lease)
    if type(depth) == 'table' then
      local expires = type(lasts) == 'number' and lasts >= 0
      if expires and type(redis.pcall('GET', lock)) == 'string' then
        -- A write that fails everywhere. A replica, whose data may be stale, has another error.
        local write = redis.pcall('HDEL', lock, lease)
        if string.find(write.err, '^WRONGTYPE') then return 'foreign', lasts end
        return 'refused', write.err
      end
      return 'refused', depth.err
    end
    if not depth then
      -- A write that changes nothing. A replica, whose data may be stale, refuses it.
      redis.call('HDEL', lock, lease)
      return 'busy', lasts
    end
  end

  reserve = reserve and tonumber(reserve) or 0
  if floor == '' then floor = nil end

  -- The counter is usually behind the clock, and then these are the tokens: they are written by the command that
  -- reads the counter. A floor, or a clock beyond the year 2255, requires reading first.
  local first, last = now, now + math.min(reserve, 1000)
  local writes = not floor and now + 1000 < LIMIT
  local old
  if not writes then
    old = redis.pcall('GET', counter)
  elseif retention ~= '' then
    old = redis.pcall('SET', counter, int(last), 'PX', retention, 'GET')
  else
    old = redis.pcall('SET', counter, int(last), 'KEEPTTL', 'GET')
  end
  if type(old) == 'table' then return 'refused', old.err end
  -- Digits only, since `tonumber` alone also reads '1e15'.
  local count = old and not string.find(old, '%D') and tonumber(old)

  if not (writes and count and count < now) then
    local refused
    if old and not (count and count < LIMIT) then
      refused = 'WRONGTYPE the fencing counter is not a number below 2^53'
    else
      -- The counter never runs more than 1 ms ahead of the clock, and a missing one starts that far ahead. Tokens
      -- thus increase even if the counter is lost. Only a floor sets it further ahead; it then lives until the clock
      -- has caught up.
      first = count and math.max(count + 1, now) or now + 1000
      if floor then first = math.max(first, tonumber(floor) + 1) end
      last = math.max(first, math.min(first + reserve, now + 1000))
      if last >= LIMIT then refused = 'TOKENS the next fencing token would not be below 2^53' end
    end
    if refused then
      if writes and retention ~= '' then redis.call('SET', counter, old) end
      if writes and retention == '' then redis.call('SET', counter, old, 'KEEPTTL') end
      return 'refused', refused
    end
    raise(counter, last, retention)
  end

  local failed = hold(lock, lasts, lease, '1', duration)
  if failed then return 'error', failed end
  -- Our counters hold a time in µs.
  return 'granted', first, last, count and count < now / 2 and 1 or 0
end
