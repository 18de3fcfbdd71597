-- The age of a node of a quorum: the time for which it is known to have kept its data.
--
-- The marker, key 1, is a STRING without an expiry. It consists of the run id of the server, which is argument 1, and
-- the time in µs since which this run has kept its data. If the data is lost, so is the marker. After a restart, or
-- with the data of another server, the run id differs.
local kept = redis.pcall('GET', KEYS[1])
if type(kept) == 'table' then return {now, 'refused', kept.err} end
-- If the stored id is longer, no number follows.
local since = kept and string.find(kept, ARGV[1], 1, true) == 1 and tonumber(string.sub(kept, #ARGV[1] + 1))
if not since then
  since = now
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. int(now))
end
local age = now > since and now - since or 0

