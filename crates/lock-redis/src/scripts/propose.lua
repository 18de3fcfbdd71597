-- Votes on a proposed token, as a node of a quorum.
--
-- KEYS 1 lock: HASH {lease id: depth}, expiry = lease   2 fencing counter   3 marker, left out if any age is enough
-- ARGV 1 lease id   2 lease, ms   3 not after, µs   4 token   5 end of its range
--      6 retention, ms, at least 3000, or '' to keep the counter's expiry
--      7 least age, µs, or ''   8 run id of the server, or ''   9 floor
--      Arguments from 7 on are left out at the end if they are empty: each word costs Redis a third of a command.
--
-- reply in the usual case: the server's time in µs alone, which means `granted`; the age is at least argument 7
--
-- other replies, each after the server's time in µs, and with the age in µs behind the word, or 0 without argument 7:
--   granted                      the lease holds the lock, and the counter is at the end of the range
--   busy, pttl, counter, lease   another lease holds the lock; lease is '' if the key is not a lock, and a negative pttl
--                                means unknown
--   stale, counter               the token is not above the counter, whose retention may have been renewed
--   clock                        the token is too far from the clock
--   quarantined                  the node has not kept its data for long enough to vote
--   late                         executed after `not after`: nothing was done
-- and without an age:
--   refused, error   a key holds something else, or a permission is missing: nothing was done, except that an invalid
--                    counter may have lost its expiry if argument 6 is a retention
--   error, text      failed midway: the counter may have been written
local lock, counter, marker = unpack(KEYS)
local lease, duration, not_after, token, last, retention, min_age, run, floor = unpack(ARGV)

local age, unknown = 0, nil
if marker then age, unknown = age_of(marker, run) end
if unknown then return {now, 'refused', unknown} end
if now > tonumber(not_after) then return {now, 'late', age} end
if marker and age < tonumber(min_age) then return {now, 'quarantined', age} end

local lasts = redis.pcall('PTTL', lock)
local free = lasts == -2
local depth = not free and (type(lasts) == 'table' and lasts or redis.pcall('HGET', lock, lease))
if type(depth) == 'table' then return {now, 'refused', depth.err} end

-- In the usual case, the lock is free and the counter is below a token near the clock. One command then reads the old
-- counter and writes the new one.
local DISTANCE = 1000000
local last_text = last
-- Reading 16 digits takes half as long as a command.
last = tonumber(last)
token = token == last_text and last or tonumber(token)
local most = now + (retention == '' and 1000 or DISTANCE)
local writes = free and token > now - DISTANCE and last <= most and last < LIMIT
local old
if not writes then
  old = redis.pcall('GET', counter)
elseif retention ~= '' then
  old = redis.pcall('SET', counter, last_text, 'PX', retention, 'GET')
else
  old = redis.pcall('SET', counter, last_text, 'KEEPTTL', 'GET')
end
if type(old) == 'table' then return {now, 'refused', old.err} end
-- Only digits are allowed. `tonumber` alone would also accept '1e15'.
local count = not old and 0 or not string.find(old, '%D') and tonumber(old)

if writes and count and count < token then
  local failed = hold(lock, lasts, lease, '1', duration)
  return failed and {now, 'error', failed} or now
end
