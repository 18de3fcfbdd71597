-- What the scripts of the run ledger share; it stands before each of them.
--
-- job: HASH   mark = the watermark, ms   epoch   token = the last fencing token   open = its open runs, separated by spaces
-- open runs of a group: HASH   "<job>\n<run>" = an attempt
-- history of a job: LIST of attempts, the newest first
-- orders of a group: HASH   revision   revision:<job>   paused:<job> = 1   schedule:<job>   trigger:<uuid> = "<µs> <job>"
--
-- An attempt is a JSON array of texts, in this order:
local RUN, ATTEMPT, CLAIM, TOKEN, NODE, CATCH_UP, MISSED, STARTED = 1, 2, 3, 4, 5, 6, 7, 8
-- … of an open run                 and of one that has ended (then in µs)
local EXPIRES, STATE, REPLACED = 9, 10, 11
local ENDED, OUTCOME, DETAIL = 9, 10, 11

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
-- Numbers are formatted, never concatenated: n..'' rounds to 14 digits.
local function int(n) return string.format('%.0f', n) end
local function answer(...) return {int(now), ...} end

local function fields(key)
  local flat, of = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do of[flat[i]] = flat[i + 1] end
  return of
end

local function is_over(open) return now_ms > tonumber(open[EXPIRES]) end

local function find_open(key, job, run)
  local open = redis.call('HGET', key, job .. '\n' .. run)
  return open and cjson.decode(open)
end

-- The attempt of that run in a history; of that claim, if one is given.
local function find_ended(key, run, claim)
  for _, text in ipairs(redis.call('LRANGE', key, 0, -1)) do
    local ended = cjson.decode(text)
    if ended[RUN] == run and (not claim or ended[CLAIM] == claim) then return ended end
  end
end

local function remember(key, open, outcome, detail, most)
  local ended = {unpack(open, RUN, STARTED)}
  ended[ENDED], ended[OUTCOME], ended[DETAIL] = int(now), outcome, detail
  redis.call('LPUSH', key, cjson.encode(ended))
  redis.call('LTRIM', key, 0, tonumber(most) - 1)
end

