-- Reads the controls of a group, unless the caller knows their revision.
--
-- KEYS 1 group
-- ARGV 1 known revision
--
-- replies, each after the server's time in µs:
--   unchanged
--   changed, revision, then field and value of each
local revision = redis.call('HGET', KEYS[1], 'revision') or '0'
if revision == ARGV[1] then return answer('unchanged') end
local reply = answer('changed', revision)
for field, value in pairs(fields(KEYS[1])) do
  reply[#reply + 1] = field
  reply[#reply + 1] = value
end
return reply
