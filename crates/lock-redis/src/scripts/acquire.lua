-- Takes a lock, or repeats having taken it. Nothing is written before everything was read and checked.
--
-- KEYS 1 lock: HASH {lease id: depth}, expiry = lease
--      2 fencing counter: STRING, the last token given out or reserved
-- ARGV 1 lease id   2 lease, ms   3 not after, µs   4 reserve   5 floor or ''   6 retention, ms, or '' to keep the counter's expiry
--
-- replies, each after the server's time in µs:
--   granted, first, last, foreign   the lock is ours; also the answer to a repeat, with new tokens; foreign is 1 if
--                            the counter was no time, as one that Redisson began, else 0
--   busy, pttl               another holds it; a negative pttl is "unknown"
--   late                     executed after its time: nothing was done
--   refused, error           a key holds something else, or a right is missing: nothing was done
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- Numbers are formatted, never concatenated: n..'' rounds to 14 digits.
local function int(n) return string.format('%.0f', n) end

if now > tonumber(ARGV[3]) then return {int(now), 'late'} end

local depth = redis.pcall('HGET', KEYS[1], ARGV[1])
if type(depth) == 'table' then return {int(now), 'refused', depth.err} end
local lasts = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  lasts = redis.call('PTTL', KEYS[1])
  if not depth then
    -- A write that changes nothing: a replica, whose data may be old, refuses it.
    redis.call('HDEL', KEYS[1], ARGV[1])
    return {int(now), 'busy', lasts}
  end
end
local counter = redis.pcall('GET', KEYS[2])
if type(counter) == 'table' then return {int(now), 'refused', counter.err} end
if counter and not (string.match(counter, '^%d+$') and tonumber(counter) < 9007199254740992) then
  return {int(now), 'refused', 'WRONGTYPE the fencing counter is no number below 2^53'}
end
counter = counter and tonumber(counter)

-- The counter never runs more than 1 ms ahead of the clock, and a missing one starts that far ahead: so tokens
-- grow over the loss of the counter. Only a floor puts it further ahead; then it lives until the clock has caught up.
local first = counter and math.max(counter + 1, now) or now + 1000
if ARGV[5] ~= '' then first = math.max(first, tonumber(ARGV[5]) + 1) end
local last = math.max(first, math.min(first + tonumber(ARGV[4]), now + 1000))
if last >= 9007199254740992 then
  return {int(now), 'refused', 'TOKENS the next fencing token would not be below 2^53'}
end
local ahead = last > now + 1000 and math.floor(last / 1000) - math.floor(now / 1000) + 2 or 0
if ARGV[6] ~= '' then
  redis.call('SET', KEYS[2], int(last), 'PX', int(math.max(tonumber(ARGV[6]), ahead)))
else
  redis.call('SET', KEYS[2], int(last), 'KEEPTTL')
  if ahead > 0 then
    local left = redis.call('PTTL', KEYS[2])
    if left >= 0 and left < ahead then redis.call('PEXPIRE', KEYS[2], int(ahead)) end
  end
end

-- From here on nothing may fail without being undone: a lock without an expiry makes others wait for ever.
if not depth then redis.call('HSET', KEYS[1], ARGV[1], 1) end
if lasts < tonumber(ARGV[2]) then
  local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if type(set) == 'table' then
    if not depth then redis.call('DEL', KEYS[1]) end
    return set
  end
end
-- Ours is a time in µs.
local foreign = counter and counter < now / 2 and 1 or 0
return {int(now), 'granted', int(first), int(last), foreign}
