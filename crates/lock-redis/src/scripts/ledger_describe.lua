-- Keeps the descriptions of registered jobs in their summaries.
--
-- KEYS 1 summaries   2… jobs
-- ARGV 2i-1 job   2i schedule
--
-- reply: the server's time in µs, `described`
for i = 2, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    local name = ARGV[2 * i - 3]
    local summary = recall(redis.call('HGET', KEYS[1], name))
    summary.schedule, summary.described = ARGV[2 * i - 2], int(now)
    redis.call('HSET', KEYS[1], name, cjson.encode(summary))
  end
end
return answer('described')
