-- Reads the live nodes of a group, and the summaries of its jobs and kinds.
--
-- KEYS 1 nodes of the group   2 summaries
--
-- reply: the server's time in µs, `summary`, the number of nodes, then for each: id, record (JSON)
--        then for each job: name, summary (JSON)

--@include shared/ledger.lua

local reply = answer('summary', redis.call('HLEN', KEYS[1]))
append_fields(reply, KEYS[1])
append_fields(reply, KEYS[2])
return reply
