-- Carries out operations on pools independently: the failure of one does not affect the others.
--
-- KEYS of each operation in turn: 1 pool   2 queue   3 fencing counter, as that of a lock
-- ARGV 1 1 if channels are sharded, or ''
--      of each operation in turn its name, the channel, or '' to wake nobody, the lease id, and
--      acquire: lease, ms   not after, µs   retention, ms, or ''   weight   limit   place or ''   patience, ms   floor or ''
--      renew:   lease, ms   not after, µs
--      release: weight left; 0 also gives up the place with the id of the lease
--
-- stored: pool, a HASH {lease id: 'weight end', 'w:' + place: 'weight end', @used: the sum of the weights of the leases,
--      @next: no end is before it, @ticket: the last ticket}, and queue, a ZSET {place: ticket}. Ends are in ms.
--
-- reply: one text of lines:
--   the server's time in µs
--   for each operation in turn: an empty line for `renewed`, and for `granted` with the time as the token; otherwise a line
--   for each of these parts:
--   granted, token, token, 0
--   queued, ms      it has a place; after this time a lease may end, for the first in the queue, or -1
--   busy, ms        it has no place
--   late            executed after `not after`: nothing was done
--   gone            a renewal found no lease
--   gone, other     a release found nothing; other is 1 if there are other leases
--   kept            the weight was lowered
--   released, -1    the lease or the place has ended
--   error, text     the operation raised an error; `refused`, text: nothing was done

--@include shared/now.lua
--@include shared/now_text.lua
--@include shared/grant.lua

local now_ms = math.floor(now / 1000)
local MAX_QUEUE = 10000
-- The time for which keys outlive their last end, so that they need not be set at each renewal.
local SLACK = 60000

-- Reads 'weight end'.
local function parse(value)
  local weight, ends = string.match(value, '^(%d+) (%d+)$')
  return tonumber(weight), tonumber(ends)
end

local function value(weight, ends)
  return int(weight) .. ' ' .. int(ends)
end

-- Drops what has ended, and returns the weights in use, the earliest end, and whether anything was dropped.
local function open(pool, queue)
  local head = redis.call('HMGET', pool, '@used', '@next')
  local used, next_end = tonumber(head[1] or 0), tonumber(head[2])
  if not next_end or now_ms <= next_end then return used, next_end, false end
  -- Renewals have moved the ends, so this is rare even if nothing has ended.
  local all, dropped = redis.call('HGETALL', pool), false
  used, next_end = 0, nil
  for at = 1, #all, 2 do
    local id = all[at]
    if string.byte(id) ~= 64 then -- '@'
      local weight, ends = parse(all[at + 1])
      local waits = string.sub(id, 1, 2) == 'w:'
      if now_ms > ends then
        dropped = true
        if waits then redis.call('ZREM', queue, string.sub(id, 3)) end
        redis.call('HDEL', pool, id)
      else
        if not waits then used = used + weight end
        if not next_end or ends < next_end then next_end = ends end
      end
    end
  end
  redis.call('HSET', pool, '@used', int(used), '@next', int(next_end or now_ms))
  return used, next_end, dropped
end

-- Lets the keys live until this end.
local function keep(pool, queue, ends, queues)
  local left = redis.call('PTTL', pool)
  local until_ms = now_ms + left
  if left < 0 or until_ms <= ends then
    until_ms = ends + SLACK
    redis.call('PEXPIREAT', pool, int(until_ms))
    queues = true
  end
  if queues then redis.call('PEXPIREAT', queue, int(until_ms)) end
end

local function wake(channel)
  -- A waiting Java client counts down by the payload, which must be the number 0.
  if channel ~= '' then redis.call(ARGV[1] == '1' and 'SPUBLISH' or 'PUBLISH', channel, '0') end
end

-- Returns `true` if this weight fits beside those in use and the first places, this many.
local function has_room(pool, queue, used, weight, limit, ahead)
  local sum, at = used + weight, 0
  while at < ahead and sum <= limit do
    local places = redis.call('ZRANGE', queue, at, math.min(at + 31, ahead - 1))
    for _, place in ipairs(places) do
      local waiter = redis.call('HGET', pool, 'w:' .. place)
      if waiter then
        sum = sum + parse(waiter)
      else
        -- The pool was evicted, and its queue was not.
        redis.call('ZREM', queue, place)
      end
    end
    at = at + 32
  end
  return sum <= limit
end

local function acquire(pool, queue, counter, channel, lease, duration, not_after, retention, weight, limit, place, patience, floor)
  if now > not_after + 0 then return {now, 'late'} end
  weight, limit = weight + 0, limit + 0
  local used, next_end, dropped = open(pool, queue)
  local waiting = redis.call('ZCARD', queue)
  local at = waiting > 0 and place ~= '' and redis.call('ZRANK', queue, place)
  local held = used > 0 and redis.call('HGET', pool, lease)
  if not held and (used + weight > limit or not has_room(pool, queue, used, weight, limit, at or waiting)) then
    if dropped and waiting > (at and 1 or 0) then wake(channel) end
    local remaining = next_end and next_end - now_ms or -1
    if place == '' or not at and waiting >= MAX_QUEUE then return {now, 'busy', remaining} end
    local ends, known = now_ms + patience, at and redis.call('HGET', pool, 'w:' .. place)
    if known then
      local old
      weight, old = parse(known)
      ends = math.max(ends, old)
    end
    if not at then redis.call('ZADD', queue, redis.call('HINCRBY', pool, '@ticket', '1'), place) end
    redis.call('HSET', pool, 'w:' .. place, value(weight, ends), '@next', int(math.min(next_end or ends, ends)))
    keep(pool, queue, ends, not at)
    local first = at == 0 or not at and waiting == 0
    return {now, 'queued', first and remaining or -1}
  end

  local old = redis.call('GET', counter)
  local token, last, count = next_tokens(old, 0, floor ~= '' and floor)
  if not token then
    if dropped and waiting > 0 then wake(channel) end
    return {now, 'refused', last}
  end
  advance(counter, last, count, retention)
  local ends = now_ms + duration
  if held then
    local before
    weight, before = parse(held)
    ends = math.max(ends, before)
  else
    used = used + weight
  end
  redis.call('HSET', pool, lease, value(weight, ends), '@used', int(used), '@next', int(math.min(next_end or ends, ends)))
  if at then
    redis.call('ZREM', queue, place)
    redis.call('HDEL', pool, 'w:' .. place)
    waiting = waiting - 1
  end
  keep(pool, queue, ends)
  if waiting > 0 then
    -- One wake-up stands for a release of any weight, so each grant that leaves room wakes the next waiter.
    local fits = dropped
    if not fits then
      local place = redis.call('ZRANGE', queue, 0, 0)[1]
      local first = place and redis.call('HGET', pool, 'w:' .. place)
      if place and not first then redis.call('ZREM', queue, place) end
      fits = not first or used + parse(first) <= limit
    end
    if fits then wake(channel) end
  end
  if token == now then return now end
  return {now, 'granted', token, token, 0}
end

local function renew(pool, queue, _, channel, lease, duration, not_after)
  if now > not_after + 0 then return {now, 'late'} end
  -- A write that changes nothing. A replica, whose data may be stale, refuses it; a server whose memory is full does not,
  -- and then carries out the rest.
  redis.call('HDEL', pool, '')
  local used, _, dropped = open(pool, queue)
  if dropped and redis.call('ZCARD', queue) > 0 then wake(channel) end
  local held = redis.call('HGET', pool, lease)
  if not held then return {now, 'gone'} end
  local weight, before = parse(held)
  local ends = math.max(now_ms + duration, before)
  redis.call('HSET', pool, lease, value(weight, ends))
  keep(pool, queue, ends)
  return now
end

local function release(pool, queue, _, channel, lease, left)
  redis.call('HDEL', pool, '') -- as above
  local used, next_end, dropped = open(pool, queue)
  local held = redis.call('HGET', pool, lease)
  local weight, ends
  if held then weight, ends = parse(held) end
  local reply
  if left ~= '0' then
    if held then
      local lower = math.min(weight, left + 0)
      redis.call('HSET', pool, lease, value(lower, ends), '@used', int(used - weight + lower))
      reply = {now, 'kept'}
    end
  else
    local given_up = redis.call('HDEL', pool, lease, 'w:' .. lease)
    if given_up > 0 then
      reply = {now, 'released', -1}
      redis.call('ZREM', queue, lease)
      if held then used = used - weight end
    end
  end
  local waiting = redis.call('ZCARD', queue)
  if reply and left == '0' then
    if used > 0 or waiting > 0 then
      redis.call('HSET', pool, '@used', int(used))
    else
      -- The key is deleted with its last field.
      redis.call('HDEL', pool, '@used', '@next', '@ticket')
    end
  end
  if (reply or dropped) and waiting > 0 then wake(channel) end
  return reply or {now, 'gone', used > 0 and 1 or 0}
end

local lines, key, argument = {now_text}, 1, 2

local function add(done, reply)
  local at = #lines + 1
  if done and type(reply) == 'number' then
    lines[at] = ''
    return
  end
  -- Before Redis 7, a raised error is a string.
  if not done then reply = {now, 'error', type(reply) == 'table' and reply.err or reply} end
  lines[at] = reply[2]
  for part = 3, #reply do
    local word = reply[part]
    lines[at + part - 2] = type(word) == 'number' and int(word) or string.gsub(word, '\n', ' ')
  end
end

local operations = {acquire = {acquire, 10}, renew = {renew, 4}, release = {release, 3}}
while ARGV[argument] do
  local run, count = unpack(operations[ARGV[argument]])
  add(pcall(run, KEYS[key], KEYS[key + 1], KEYS[key + 2], unpack(ARGV, argument + 1, argument + count)))
  key, argument = key + 3, argument + 1 + count
end
return table.concat(lines, '\n')
