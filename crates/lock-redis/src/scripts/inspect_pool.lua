-- Reads the leases of a pool, and the places of those who wait.
--
-- KEYS 1 pool   2 queue
--
-- reply, after the server's time in µs:
--   pool, number of leases, then for each lease its id, weight and remaining ms, and then those of each place in order

--@include shared/now.lua

local now_ms = math.floor(now / 1000)
local reply, waiters = {now, 'pool', 0}, {}

local function add(id, stored)
  local weight, ends = string.match(stored, '^(%d+) (%d+)$')
  if now_ms > ends + 0 then return false end
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, weight + 0, ends - now_ms
  return true
end

local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local id = all[at]
  if string.sub(id, 1, 2) == 'w:' then
    waiters[string.sub(id, 3)] = all[at + 1]
  elseif string.byte(id) ~= 64 and add(id, all[at + 1]) then -- '@'
    reply[3] = reply[3] + 1
  end
end
for _, place in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  if waiters[place] then add(place, waiters[place]) end
end
return reply
