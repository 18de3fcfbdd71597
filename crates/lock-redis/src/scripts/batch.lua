-- Carries out operations on many locks independently: the failure of one does not affect the others.
--
-- KEYS of each operation in turn: the keys of its own script
-- ARGV 1 1 if channels are sharded, or ''
--      of each operation in turn: its name, then the arguments of its own script. An acquire without a reserve and a
--      floor is an `acquire`, with them a `reserve`.
--
-- reply: one text of lines, which costs Redis a third as much as nested lists:
--   the server's time in µs
--   for each operation in turn: an empty line in the usual case of its own script; otherwise the word of that script's reply,
--   then a line for each part that follows; `error` and the error text if the operation raised an error
local lines, key, argument = {int(now)}, 1, 2

-- `usual` is the word of the usual case, whose numbers are known.
local function add(usual, done, word, a, b, c)
  local at = #lines + 1
  if word == usual and (not a or a == 0 or a == now and c == 0) then
    lines[at] = ''
    return
  end
  -- Before Redis 7, a raised error is a string.
  if not done then word, a = 'error', type(word) == 'table' and word.err or word end
  lines[at] = word
  if a then lines[at + 1] = type(a) == 'number' and int(a) or string.gsub(a, '\n', ' ') end
  if c then lines[at + 2], lines[at + 3] = int(b), int(c) end
end

while ARGV[argument] do
  local operation = ARGV[argument]
  if operation == 'acquire' then
    add('granted', pcall(acquire, KEYS[key], KEYS[key + 1], unpack(ARGV, argument + 1, argument + 4)))
    key, argument = key + 2, argument + 5
  elseif operation == 'release' then
    local lease, depth_left, channel = unpack(ARGV, argument + 1, argument + 3)
    add('released', pcall(release, KEYS[key], lease, depth_left, channel, ARGV[1]))
    key, argument = key + 1, argument + 4
  elseif operation == 'reserve' then
    add('granted', pcall(acquire, KEYS[key], KEYS[key + 1], unpack(ARGV, argument + 1, argument + 6)))
    key, argument = key + 2, argument + 7
  elseif operation == 'renew' then
    add('renewed', pcall(renew, KEYS[key], unpack(ARGV, argument + 1, argument + 3)))
    key, argument = key + 1, argument + 4
  else
    add('reentered', pcall(reenter, KEYS[key], unpack(ARGV, argument + 1, argument + 4)))
    key, argument = key + 1, argument + 5
  end
end
return table.concat(lines, '\n')
