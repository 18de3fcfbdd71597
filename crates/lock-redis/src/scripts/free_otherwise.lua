-- The rest of `free.lua`.

if type(freed) == 'table' then return {now, 'refused', freed.err} end
return {now, 'gone', redis.call('EXISTS', lock)}
