-- Makes jobs known: the watermark of one that has none is now.
--
-- KEYS 1… jobs
--
-- reply: the server's time in µs, `registered`, then for each job: new | before, watermark, ms
local reply = answer('registered')
for _, key in ipairs(KEYS) do
  local mark = redis.call('HGET', key, 'mark')
  reply[#reply + 1] = mark and 'before' or 'new'
  if not mark then
    mark = int(now_ms)
    redis.call('HSET', key, 'mark', mark)
  end
  reply[#reply + 1] = mark
end
return reply
