-- Carries out operations on many locks, each for itself: the failure of one does not touch another.
--
-- KEYS of each operation in turn, those of its own script
-- ARGV of each operation in turn, its name, and then the arguments of its own script
--
-- replies: of each operation in turn, the reply of its own script, or an error text
local replies, key, argument = {}, 1, 1
while ARGV[argument] do
  local operation, _, reply = ARGV[argument], nil, nil
  if operation == 'acquire' then
    _, reply = pcall(acquire, now, KEYS[key], KEYS[key + 1], unpack(ARGV, argument + 1, argument + 6))
    key, argument = key + 2, argument + 7
  elseif operation == 'release' then
    _, reply = pcall(release, now, KEYS[key], unpack(ARGV, argument + 1, argument + 4))
    key, argument = key + 1, argument + 5
  elseif operation == 'renew' then
    _, reply = pcall(renew, now, KEYS[key], unpack(ARGV, argument + 1, argument + 3))
    key, argument = key + 1, argument + 4
  else
    _, reply = pcall(reenter, now, KEYS[key], unpack(ARGV, argument + 1, argument + 4))
    key, argument = key + 1, argument + 5
  end
  -- An error is a table, returned or raised. Before Redis 7, a raised one is a text.
  if type(reply) == 'table' and reply.err then reply = reply.err end
  replies[#replies + 1] = reply
end
return replies
