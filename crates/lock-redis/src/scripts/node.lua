-- A node of a quorum: the time for which it is known to have kept its data, and the reading of what it stores.
--
-- The marker is a STRING without an expiry: the run id of the server, and the time in µs since which this run has kept its
-- data. Data that are lost take the marker with them. A restart has another run id, and so has the data of another server.

-- Returns the age in µs, or nil and an error.
local function kept_for(marker, run)
  local kept = redis.pcall('GET', marker)
  if type(kept) == 'table' then return nil, kept.err end
  local id, since = string.match(kept or '', '^(%S+) (%d+)$')
  if id == run then return math.max(now - since, 0) end
  redis.call('SET', marker, run .. ' ' .. int(now))
  return 0
end

-- Returns the counter, 0 if it is missing, or nil and an error.
local function count_of(counter)
  local text = redis.pcall('GET', counter)
  if type(text) == 'table' then return nil, text.err end
  local count = not text and 0 or not string.find(text, '%D') and tonumber(text)
  if count and count < LIMIT then return count end
  return nil, 'WRONGTYPE the fencing counter is no number below 2^53'
end

-- Returns the PTTL of a lock and whether another lease holds it, or nil, nil and an error.
local function look(lock, lease)
  local lasts = redis.pcall('PTTL', lock)
  if lasts == -2 then return lasts, false end
  local depth = type(lasts) == 'table' and lasts or redis.pcall('HGET', lock, lease)
  if type(depth) == 'table' then return nil, nil, depth.err end
  return lasts, not depth
end

