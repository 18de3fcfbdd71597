-- Sets a lease of a lock with this PTTL, or extends its expiry. A failure is undone, since a lock without an expiry
-- would make others wait forever. Returns an error, or nothing.
local function hold(lock, lasts, lease, depth, duration)
  local free = lasts == -2
  if free then redis.call('HSET', lock, lease, depth) end
  if free or lasts < tonumber(duration) then
    local set = redis.pcall('PEXPIRE', lock, duration)
    if type(set) == 'table' then
      -- The key is deleted with its only field.
      if free then redis.call('HDEL', lock, lease) end
      return set.err
    end
  end
end

