-- The age of a node of a quorum.
--
-- Takes `redis` and `now`. Gives `age_of`.

-- Returns the age of a node of a quorum, or nil and an error. The age is the time in µs for which the node is known to
-- have kept its data.
--
-- The marker is a STRING without an expiry. It consists of the run id of the server and the time in µs since which this
-- run has kept its data. If the data is lost, so is the marker. After a restart, or with the data of another server, the
-- run id differs.
local function age_of(marker, run)
  local kept = redis.pcall('GET', marker)
  if type(kept) == 'table' then return nil, kept.err end
  -- If the stored id is longer, no number follows.
  local since = kept and string.find(kept, run, 1, true) == 1 and tonumber(string.sub(kept, #run + 1))
  if not since then
    since = now
    redis.call('SET', marker, string.format('%s %.0f', run, now))
  end
  return now > since and now - since or 0
end
