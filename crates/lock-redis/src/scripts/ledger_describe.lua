-- Stores the descriptions of registered jobs and kinds in their summaries. The name of a kind ends with a slash.
--
-- KEYS 1 summaries   2… jobs and kinds
-- ARGV 5i-4 job or kind   5i-3 schedule   5i-2 policy for clock changes   5i-1 terms
--      5i the time after which it is overdue, ms, or ''
--
-- reply: the server's time in µs, `described`

--@include shared/ledger.lua

for i = 2, #KEYS do
  local at, since = 5 * (i - 2), 0
  if redis.call('EXISTS', KEYS[i]) == 1 or string.find(ARGV[at + 1], '^[^/]*/$') then
    for _, of in pairs(decode(redis.call('HGET', KEYS[i], 'since')) or {}) do
      since = math.max(since, tonumber(of.from))
    end
    local summary = recall(redis.call('HGET', KEYS[1], ARGV[at + 1]))
    summary.schedule, summary.dst, summary.terms = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    summary.alert, summary.described = ARGV[at + 5] ~= '' and ARGV[at + 5] or nil, int(now)
    summary.since = since > 0 and int(since) or nil
    redis.call('HSET', KEYS[1], ARGV[at + 1], cjson.encode(summary))
  end
end
return answer('described')
