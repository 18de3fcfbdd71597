-- Takes a lock, or grants it again to a repeat by the same lease id.
--
-- KEYS 1 lock: HASH {lease id: depth}, expiry = lease
--      2 fencing counter: STRING, the last token granted or reserved; a counter without an expiry keeps none
-- ARGV 1 lease id   2 lease, ms   3 not after, µs   4 retention, ms, or '' to keep the counter's expiry
--      5 reserve   6 floor or ''; both are left out if the reserve is 0 and there is no floor
--
-- reply in the usual case: the server's time in µs alone, which means `granted`. It is the first token;
-- the last is ahead of it by the reserve, at most 1000, and the counter was a time.
--
-- other replies, each after the server's time in µs:
--   granted, first, last, foreign   the lock is held by this lease id, even after a repeat, which gets new tokens; foreign
--                            is 1 if the counter was not a time, like one that Redisson created, else 0
--   busy, pttl               another lease holds it; a negative pttl means unknown
--   foreign, pttl            the key is a string with this expiry, as other lock implementations store it
--   late                     executed after `not after`: nothing was done
--   refused, error           a key has another type, or a permission is missing: nothing was done
--   error, text              failed midway: a counter may have been written
--
-- Calls of functions and conversions to numbers make up most of the time, so the usual case does without what it can.

--@include shared/now.lua
--@include shared/now_text.lua
local lock, counter, lease, duration, not_after, retention, reserve, floor = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local lasts = redis.pcall('PTTL', lock)
local free = lasts == -2
reserve = reserve and reserve + 0 or 0
if floor == '' then floor = nil end

-- The counter is usually behind the clock, and then these are the tokens. A floor, or a clock beyond the year 2255,
-- requires reading the counter first.
local token, last_text = now, now_text
if reserve > 0 then last_text = string.format('%.0f', now + math.min(reserve, 1000)) end
-- An eighth of the retention, in µs. The first grant in it renews the expiry of the counter.
local window = retention ~= '' and retention * 125
local writes = free and not floor and now <= not_after + 0 and now + 1000 < LIMIT

-- The usual case: the lock is free, and its counter is a time in µs below the token. One command reads the old counter
-- and writes the new one.
local old
if writes then
  old = redis.pcall('SET', counter, last_text, 'KEEPTTL', 'GET')
  -- The times from 2001 to 2286 have 16 digits. Any other text is checked below.
  local count = old and #old == 16 and tonumber(old)
  if count and count >= 1000000000000000 and count < token then
    -- The expiry is renewed once in each window. A counter without an expiry, like one that Redisson created, keeps none.
    if window and count - count % window ~= now - now % window and redis.call('PTTL', counter) >= 0 then
      redis.call('PEXPIRE', counter, retention)
    end
    redis.call('HSET', lock, lease, '1')
    if redis.pcall('PEXPIRE', lock, duration) == 1 then return now end
    -- A lock without an expiry would make others wait forever. `hold` tries again, and returns the error.
    redis.call('HDEL', lock, lease)
  end
end

-- All other cases. The functions are created only here, since even that takes a considerable part of the time.
--@include shared/grant.lua
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
local first, last, count = next_tokens(old, reserve, floor)
if not first then
  if writes then redis.call('SET', counter, old, 'KEEPTTL') end
  return {now, 'refused', last}
end
advance(counter, last, count, retention)
local failed = hold(lock, lasts, lease, '1', duration)
if failed then return {now, 'error', failed} end
-- Our counters hold a time in µs.
return {now, 'granted', first, last, count and count < now / 2 and 1 or 0}
