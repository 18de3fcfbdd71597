-- Extends existing leases on a quorum node. An item with a depth is a re-entry, one without is a renewal. The failure
-- of one item does not affect the others.
--
-- KEYS 1 marker, followed by the lock of each item
-- ARGV 1 run id of the server, followed by four arguments for each item: lease id, lease in ms, not after in µs, depth
-- or ''
--
-- replies, each after the server's time in µs:
--   extended, age in µs, followed by a word and a text for each item; the text is an error or ''. The words are
--     extended, gone, late, refused, error
--   refused, error   nothing was done

--@include shared/now.lua
--@include shared/node.lua
--@function renew(lock, lease, duration, not_after)
--@function reenter(lock, lease, duration, depth, not_after)

local age, unknown = age_of(KEYS[1], ARGV[1])
if unknown then return {now, 'refused', unknown} end
local reply = {now, 'extended', age}
for item = 2, #KEYS do
  local lease, duration, not_after, depth = unpack(ARGV, 4 * item - 6, 4 * item - 3)
  local done, answer
  if depth == '' then
    done, answer = pcall(renew, KEYS[item], lease, duration, not_after)
  else
    done, answer = pcall(reenter, KEYS[item], lease, duration, depth, not_after)
  end
  local word, text = 'extended', ''
  if not done then
    -- Before Redis 7, a raised error is a string.
    word, text = 'error', type(answer) == 'table' and answer.err or answer
  elseif answer ~= now then
    word, text = answer[2], answer[3] or ''
  end
  local at = #reply + 1
  reply[at], reply[at + 1] = word, text
end
return reply
