-- Renews the leases of runs independently. It creates and revives nothing.
--
-- KEYS 1 open runs of the group
-- ARGV 4i-3 job   4i-2 run   4i-1 claim   4i lease, ms
--
-- reply: the server's time in µs, `renewed`, then for each run: renewed | replaced | cancelled | gone

--@include shared/ledger.lua

local reply = answer('renewed')
for i = 1, #ARGV, 4 do
  local open = find_open(KEYS[1], ARGV[i], ARGV[i + 1])
  local word = 'gone'
  if open and open.claim == ARGV[i + 2] and not is_over(open) then
    local expires = now_ms + ARGV[i + 3]
    -- The expiry never decreases.
    if expires > tonumber(open.expires) then
      open.expires = int(expires)
      write_open(KEYS[1], ARGV[i], open)
    end
    word = open.cancelled == true and 'cancelled' or open.replaced == true and 'replaced' or 'renewed'
  end
  reply[#reply + 1] = word
end
return reply
