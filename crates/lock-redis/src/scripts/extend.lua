-- Extends existing leases on a quorum node. An item with a depth is a re-entry, one without is a renewal. The failure
-- of one item does not affect the others.
--
-- KEYS 1 marker, followed by the lock of each item
-- ARGV 1 run id of the server, followed by four arguments for each item: lease id, lease in ms, not after in µs, depth
-- or ''
--
-- replies, each after the server's time in µs:
--   extended, age in µs, followed by a word and a text for each item; the text is an error or ''. The words are
--     renewed, reentered, gone, late, refused, error
--   refused, error   nothing was done
local age, unknown = age_of(KEYS[1], ARGV[1])
if unknown then return {now, 'refused', unknown} end
local reply = {now, 'extended', age}
for item = 2, #KEYS do
  local lease, duration, not_after, depth = unpack(ARGV, 4 * item - 6, 4 * item - 3)
  local done, word, text
  if depth == '' then
    done, word, text = pcall(renew, KEYS[item], lease, duration, not_after)
  else
    done, word, text = pcall(reenter, KEYS[item], lease, duration, depth, not_after)
  end
  -- Before Redis 7, a raised error is a string.
  if not done then word, text = 'error', type(word) == 'table' and word.err or word end
  local at = #reply + 1
  reply[at], reply[at + 1] = word, text or ''
end
return reply
