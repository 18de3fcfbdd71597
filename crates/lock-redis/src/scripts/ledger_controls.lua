-- Reads the controls of a group, unless the caller knows their revision.
--
-- KEYS 1 group
-- ARGV 1 known revision
--
-- replies, each after the server's time in µs:
--   unchanged
--   changed, revision, then field and value of each

--@include shared/ledger.lua

local revision = redis.call('HGET', KEYS[1], 'revision') or '0'
if revision == ARGV[1] then return answer('unchanged') end
local reply = answer('changed', revision)
append_fields(reply, KEYS[1])
return reply
