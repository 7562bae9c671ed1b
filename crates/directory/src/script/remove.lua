-- Takes records out of a bucket unless they are newer than said.
--
-- KEYS[1]: the bucket. ARGV: principal, version (sixteen hexadecimal digits), and so on.
-- Answers how many were taken out.
local removed = 0
for at = 1, #ARGV, 2 do
  local old = redis.call('HGET', KEYS[1], ARGV[at])
  if old and old:sub(1, 16) <= ARGV[at + 1] then
    removed = removed + redis.call('HDEL', KEYS[1], ARGV[at])
  end
end
return removed
