-- Extends leases that are there, on a node of a quorum: renewals, and re-entries where a depth is given. The failure of one
-- does not touch another.
--
-- KEYS 1 marker, and then the lock of each item
-- ARGV 1 run id of the server, and then of each item its lease id, lease in ms, not after in µs, depth or ''
--
-- replies, each after the server's time in µs:
--   extended, age in µs, and of each item a word and a text, which is an error or '':
--     renewed, reentered, gone, late, refused, error
--   refused, error   nothing was done
local reply = {now, 'extended', age}
for item = 2, #KEYS do
  local lease, duration, not_after, depth = unpack(ARGV, 4 * item - 6, 4 * item - 3)
  local done, word, text
  if depth == '' then
    done, word, text = pcall(renew, KEYS[item], lease, duration, not_after)
  else
    done, word, text = pcall(reenter, KEYS[item], lease, duration, depth, not_after)
  end
  -- Before Redis 7, a raised error is a text.
  if not done then word, text = 'error', type(word) == 'table' and word.err or word end
  local at = #reply + 1
  reply[at], reply[at + 1] = word, text or ''
end
return reply
