-- Tries every command that the other scripts use, on keys of its own, and names those that are denied.
--
-- KEYS 1 a lock that nobody uses   2 its counter
-- ARGV 1 its channel   2 ledger or permits, to try their commands as well, or ''   3 1 if the channel is sharded, or ''
--
-- replies, each after the server's time in µs:
--   fit
--   lacks, names            the commands that are denied, separated by spaces
--   failed, name, error     the first command that failed for another reason
local time = redis.pcall('TIME')
-- A reply needs the time.
if time.err then return redis.error_reply('NOPERM the user lacks permissions (TIME)') end
local now = time[1] * 1000000 + time[2]
local lacks, failed = {}, nil

local function try(name, ...)
  local answer = redis.pcall(name, ...)
  if type(answer) ~= 'table' or not answer.err then return true end
  -- The texts of a denial: outside of scripts, in scripts since Redis 7.2, and in scripts before it.
  if string.find(answer.err, 'NOPERM') or string.find(answer.err, 'ACL failure') or string.find(answer.err, "can't") then
    lacks[#lacks + 1] = name
  else
    failed = failed or {now, 'failed', name, answer.err}
  end
  return false
end

try('HGET', KEYS[1], 'probe')
try('HEXISTS', KEYS[1], 'probe')
try('HLEN', KEYS[1])
try('HGETALL', KEYS[1])
try('EXISTS', KEYS[1])
try('PTTL', KEYS[1])
try('GET', KEYS[2])
if ARGV[3] == '1' then try('SPUBLISH', ARGV[1], '0') else try('PUBLISH', ARGV[1], '0') end
if ARGV[2] == 'ledger' then
  -- The key is deleted with its last member.
  if try('ZADD', KEYS[2], '0', 'probe') then
    try('ZRANGEBYLEX', KEYS[2], '-', '+')
    try('ZREM', KEYS[2], 'probe')
  end
  try('LPUSH', KEYS[2], 'probe')
  try('LTRIM', KEYS[2], '0', '0')
  try('LRANGE', KEYS[2], '0', '0')
end
if ARGV[2] == 'permits' then
  try('HMGET', KEYS[1], 'probe')
  if try('HINCRBY', KEYS[1], 'probe', '1') then redis.call('HDEL', KEYS[1], 'probe') end
  if try('ZADD', KEYS[2], '0', 'probe') then
    try('ZCARD', KEYS[2])
    try('ZRANK', KEYS[2], 'probe')
    try('ZRANGE', KEYS[2], '0', '0')
    try('PEXPIREAT', KEYS[2], '32503680000000')
    try('ZREM', KEYS[2], 'probe')
  end
end
-- The second form requires Redis 6.2.
if try('SET', KEYS[2], '1', 'PX', '1') then try('SET', KEYS[2], '1', 'PX', '1', 'GET') end
if try('HDEL', KEYS[1], 'probe') then
  try('HSET', KEYS[1], 'probe', '1')
  redis.call('HDEL', KEYS[1], 'probe')
end
-- An expiry of 0 deletes the key.
try('PEXPIRE', KEYS[2], '0')

if #lacks > 0 then return {now, 'lacks', table.concat(lacks, ' ')} end
return failed or {now, 'fit'}
