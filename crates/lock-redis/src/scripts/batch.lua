-- Carries out operations on many locks independently: the failure of one does not affect the others.
--
-- KEYS of each operation in turn: the keys of its own script
-- ARGV 1 1 if channels are sharded, or ''
--      of each operation in turn: its name, then the arguments of its own script. An acquire without a reserve and a
--      floor is an `acquire`, with them a `reserve`.
--
-- reply: one text of lines, which costs Redis a third as much as nested lists:
--   the server's time in µs
--   for each operation in turn: an empty line in the usual case of its own script; otherwise a line for each part of that
--   script's reply after the time; `error` and the error text if the operation raised an error

--@include shared/now.lua
--@include shared/now_text.lua
--@include shared/grant.lua
--@function acquire(lock, counter, lease, duration, not_after, retention, reserve, floor)
--@function reenter(lock, lease, duration, depth, not_after)
--@function renew(lock, lease, duration, not_after)
--@function release(lock, lease, depth_left, channel, sharded)

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
    local value = reply[part]
    lines[at + part - 2] = type(value) == 'number' and int(value) or string.gsub(value, '\n', ' ')
  end
end

while ARGV[argument] do
  local operation = ARGV[argument]
  if operation == 'acquire' then
    add(pcall(acquire, KEYS[key], KEYS[key + 1], unpack(ARGV, argument + 1, argument + 4)))
    key, argument = key + 2, argument + 5
  elseif operation == 'release' then
    local lease, depth_left, channel = unpack(ARGV, argument + 1, argument + 3)
    add(pcall(release, KEYS[key], lease, depth_left, channel, ARGV[1]))
    key, argument = key + 1, argument + 4
  elseif operation == 'reserve' then
    add(pcall(acquire, KEYS[key], KEYS[key + 1], unpack(ARGV, argument + 1, argument + 6)))
    key, argument = key + 2, argument + 7
  elseif operation == 'renew' then
    add(pcall(renew, KEYS[key], unpack(ARGV, argument + 1, argument + 3)))
    key, argument = key + 1, argument + 4
  else
    add(pcall(reenter, KEYS[key], unpack(ARGV, argument + 1, argument + 4)))
    key, argument = key + 1, argument + 5
  end
end
return table.concat(lines, '\n')
