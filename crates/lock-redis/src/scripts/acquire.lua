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
