-- The rest of `free.lua`.

-- A key of another type has no lease.
if type(freed) == 'table' and not string.find(freed.err, '^WRONGTYPE') then return {now, 'refused', freed.err} end
return {now, 'gone', redis.call('EXISTS', lock)}
