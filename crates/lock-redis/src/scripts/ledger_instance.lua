-- Reads one instance and its payload.
--
-- KEYS 1 instances of the group   2 payloads
-- ARGV 1 job
--
-- replies, each after the server's time in µs:
--   found, definition (JSON), payload or ''
--   unknown

--@include shared/ledger.lua

local instance = redis.call('HGET', KEYS[1], ARGV[1])
if not instance then return answer('unknown') end
return answer('found', instance, redis.call('HGET', KEYS[2], ARGV[1]) or '')
