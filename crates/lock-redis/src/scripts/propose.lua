-- Votes on a proposed token, as a node of a quorum.
--
-- KEYS 1 lock: HASH {lease id: depth}, expiry = lease   2 fencing counter   3 marker, left out if any age is enough
-- ARGV 1 lease id   2 lease, ms   3 not after, µs   4 end of the range of tokens
--      5 retention, ms, at least 3000, or '' to keep the counter's expiry
--      6 run id of the server, or the whole marker if it is known to be old enough, or ''   7 least age, µs, or ''
--      8 token, or '' if the range is one token   9 floor or ''
--      Arguments from 6 on are left out at the end if they are empty: each word costs Redis a third of a command.
--
-- reply in the usual case: the server's time in µs alone, which means `granted`
--
-- other replies, each after the server's time in µs, and with the age in µs behind the word, or 0 without a marker:
--   granted                      the lease holds the lock, and the counter is at the end of the range
--   busy, pttl, counter, lease   another lease holds the lock; lease is '' if the key is not a lock, and a negative pttl
--                                means unknown
--   stale, counter               the token is not above the counter, whose retention may have been renewed
--   clock                        the token is too far from the clock
--   quarantined                  the node has not kept its data for long enough to vote
--   late                         executed after `not after`: nothing was done
-- and without an age:
--   refused, error   a key holds something else, or a permission is missing: nothing was done, except that an invalid
--                    counter may have lost its expiry if argument 5 is a retention
--   error, text      failed midway: the counter may have been written
local lock, counter, marker = KEYS[1], KEYS[2], KEYS[3]
local lease, duration, not_after, last_text, retention = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- A node that was once old enough is so until its marker changes.
local proved = not marker or redis.pcall('GET', marker) == ARGV[6]
local lasts = redis.pcall('PTTL', lock)
local free = lasts == -2
-- In the usual case, the token is near the clock.
local DISTANCE = 1000000
local last = last_text + 0
local token = (ARGV[8] or '') == '' and last or ARGV[8] + 0
local most = now + (retention == '' and 1000 or DISTANCE)
-- Each grant renews the expiry of the counter, which rules out lower tokens.
local window = nil
local writes = free and proved and now <= not_after + 0
  and token > now - DISTANCE and last <= most and last < LIMIT
