-- The digest of a bucket over the records that one start of one node says are online.
--
-- KEYS[1]: the bucket. ARGV[1]: the node. ARGV[2]: its boot, hexadecimal.
-- Answers their count, and by exclusive or the first sixteen digits of the SHA-1 of principal, a
-- zero byte and record: two halves of 32 bits, for that is what `bit` has.
local mine = ' o ' .. ARGV[1] .. ' ' .. ARGV[2] .. ' '
local stop = 16 + #mine
local version = '^' .. string.rep('[0-9a-f]', 16) .. ' '
local all = redis.call('HGETALL', KEYS[1])
local count, high, low = 0, 0, 0
for at = 1, #all, 2 do
  local text = all[at + 1]
  if text:sub(17, stop) == mine and text:find(version) then
    local sum = redis.sha1hex(all[at] .. '\0' .. text)
    high = bit.bxor(high, tonumber(sum:sub(1, 8), 16))
    low = bit.bxor(low, tonumber(sum:sub(9, 16), 16))
    count = count + 1
  end
end
return { count, bit.tohex(high) .. bit.tohex(low) }
