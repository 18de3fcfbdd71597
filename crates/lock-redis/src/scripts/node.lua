-- The age of a node of a quorum: the time for which it is known to have kept its data.
--
-- The marker, key 1, is a STRING without an expiry: the run id of the server, which is argument 1, and the time in µs since
-- which this run has kept its data. Data that are lost take the marker with them. A restart has another run id, and so has the
-- data of another server.
local kept = redis.pcall('GET', KEYS[1])
if type(kept) == 'table' then return {now, 'refused', kept.err} end
-- No number follows where the id is longer.
local since = kept and string.find(kept, ARGV[1], 1, true) == 1 and tonumber(string.sub(kept, #ARGV[1] + 1))
if not since then
  since = now
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. int(now))
end
local age = now > since and now - since or 0

