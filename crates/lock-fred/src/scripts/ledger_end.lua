-- Records how an attempt ended, if the claim is still its own. A repeat finds it recorded.
--
-- KEYS 1 job   2 open runs of its group   3 its history
-- ARGV 1 job   2 run   3 claim   4 outcome   5 detail   6 over | again   7 length of the history
--
-- replies, each after the server's time in µs: recorded | gone
local name, run, claim = ARGV[1], ARGV[2], ARGV[3]
local open = find_open(KEYS[2], name, run)
if not open or open[CLAIM] ~= claim then
  return answer(find_ended(KEYS[3], run, claim) and 'recorded' or 'gone')
end
-- The attempt before the one that is waited for is in the history already.
if open[STATE] == 'running' then remember(KEYS[3], open, ARGV[4], ARGV[5], ARGV[7]) end
if ARGV[6] == 'again' then
  open[STATE] = 'waiting'
  redis.call('HSET', KEYS[2], name .. '\n' .. run, cjson.encode(open))
else
  local left = {}
  for id in string.gmatch(redis.call('HGET', KEYS[1], 'open') or '', '%S+') do
    if id ~= run then left[#left + 1] = id end
  end
  -- Without its job it would be a job without a watermark.
  if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'open', table.concat(left, ' ')) end
  redis.call('HDEL', KEYS[2], name .. '\n' .. run)
end
return answer('recorded')
