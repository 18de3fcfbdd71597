-- Reads the instances that have changed since a revision, or a page of all of them.
--
-- KEYS 1 group   2 instances of the group   3 their changes   4 their names
-- ARGV 1 known revision, or '' to read a page   2 the name that the page follows, or ''   3 maximum number of instances
--
-- replies, each after the server's time in µs:
--   unchanged
--   changed, revision, then for each changed one: job, definition (JSON) or '' if it was removed
--   all, revision, the name that the next page follows, or '', then for each: job, definition (JSON)

--@include shared/ledger.lua

local revision = redis.call('HGET', KEYS[1], 'instances') or '0'
if revision == ARGV[1] then return answer('unchanged') end
local changed, seen, known = answer('changed', revision), {}, false
local from = 0
while not known and ARGV[1] ~= '' do
  -- Read in parts, since most readers have missed only a few changes.
  local part = redis.call('LRANGE', KEYS[3], int(from), int(from + 31))
  if #part == 0 then break end
  for _, change in ipairs(part) do
    local at, name = string.match(change, '^(%d+) (.*)$')
    if at == ARGV[1] then
      known = true
      break
    end
    if not seen[name] then
      seen[name] = true
      changed[#changed + 1] = name
      changed[#changed + 1] = redis.call('HGET', KEYS[2], name) or ''
    end
  end
  from = from + 32
end
if known then return changed end
local first = ARGV[2] ~= '' and '(' .. ARGV[2] or '-'
local names = redis.call('ZRANGEBYLEX', KEYS[4], first, '+', 'LIMIT', '0', ARGV[3])
local reply = answer('all', revision, #names == tonumber(ARGV[3]) and names[#names] or '')
for _, name in ipairs(names) do
  reply[#reply + 1] = name
  reply[#reply + 1] = redis.call('HGET', KEYS[2], name) or ''
end
return reply
