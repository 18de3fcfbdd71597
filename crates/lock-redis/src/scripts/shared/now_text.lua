-- The time as a string. It is joined from its parts, because formatting a double costs a tenth of an acquire. The
-- microseconds have no leading zeros.
--
-- Takes `time`. Gives `now_text`.

local now_text = time[1] .. string.sub('00000' .. time[2], -6)
