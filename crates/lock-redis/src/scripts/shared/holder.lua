-- The holder of a lock.
--
-- Takes `redis`. Gives `holder`.

-- A lock is a hash with exactly one field of the form `uuid:number` and a positive count below 2^32. Redisson's
-- number may be negative. Any other hash belongs to another program or is another kind of lock.
local HEX = '%x%x%x%x'
local HOLDER = '^' .. HEX .. HEX .. string.rep('%-' .. HEX, 4) .. HEX .. HEX .. ':%-?%d+$'

-- Returns the lease id and the depth; nothing if the key is missing; or nil, nil and an error.
local function holder(key)
  local fields = redis.pcall('HLEN', key)
  if type(fields) == 'table' then return nil, nil, fields.err end
  if fields == 0 then return nil end
  if fields == 1 then
    local held = redis.call('HGETALL', key)
    local counts = string.match(held[2], '^[1-9]%d*$') and tonumber(held[2]) < 4294967296
    if counts and string.match(held[1], HOLDER) then return held[1], held[2] end
  end
  return nil, nil, 'WRONGTYPE the key is a hash that is not a lock'
end

