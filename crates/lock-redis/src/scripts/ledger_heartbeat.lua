-- Records that a node is alive, forgets nodes whose lease has ended, and reads the state of the group.
--
-- KEYS 1 nodes of the group   2 group   3… jobs
-- ARGV 1 node   2 its name   3 hash of its jobs   4 its room   5 lease, ms; 0 removes it   6 known revision
--      7 its kinds, separated by slashes   8 leading: 1 or 0   9… fingerprint of each job's schedule
--
-- reply: the server's time in µs, `alive`, the number of live nodes, then for each: id, record (JSON)
--        then for each job: the time up to which it is decided, ms, or '' if the job is unknown
--        then the revision of the instances
--        then the revision of the controls and, unless it is known, field and value of each

--@include shared/ledger.lua

if ARGV[5] == '0' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  local node = {name = ARGV[2], jobs = ARGV[3], room = tonumber(ARGV[4]), kinds = ARGV[7], leading = ARGV[8] == '1'}
  node.expires = int(now_ms + ARGV[5])
  redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(node))
end
local alive = {}
for id, text in pairs(fields(KEYS[1])) do
  -- An unreadable record counts as expired, so that it stops no node.
  local expires = tonumber(recall(text).expires)
  if expires and now_ms <= expires then
    alive[#alive + 1] = id
    alive[#alive + 1] = text
  else
    redis.call('HDEL', KEYS[1], id)
  end
end
local reply = answer('alive', #alive / 2)
for _, part in ipairs(alive) do reply[#reply + 1] = part end
for i = 3, #KEYS do reply[#reply + 1] = watermark(KEYS[i], ARGV[i + 6]) end
reply[#reply + 1] = redis.call('HGET', KEYS[2], 'instances') or '0'
local revision = redis.call('HGET', KEYS[2], 'revision') or '0'
reply[#reply + 1] = revision
if revision ~= ARGV[6] then append_fields(reply, KEYS[2]) end
return reply
