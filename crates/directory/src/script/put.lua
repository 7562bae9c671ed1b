-- Puts records into a bucket unless it has newer ones.
--
-- KEYS[1]: the bucket, a hash of principal to record. ARGV: principal, record, and so on.
-- Answers what it keeps instead: index (from 1), record, and so on. It keeps what is newer, what is
-- as new and different, and, against one that is offline, what is online at another node: the end
-- of an old connection says nothing of a newer one elsewhere.
-- A record begins with its version, sixteen lower-case hexadecimal digits, so that the order of
-- texts is that of versions; numbers of Lua would lose the last bits. What is no record counts as
-- absent, so that garbage cannot hold a principal for ever.
local hex = '[0-9a-f]'
local record = '^' .. string.rep(hex, 16) .. ' [of] ([%w%._%-%+:/=]+) (' .. hex .. '+) [^ ]'
local function is_record(text)
  local _, _, node, boot = string.find(text, record)
  return node and #node <= 32 and #boot <= 16
end
local function keeps(old, new)
  if old:sub(1, 16) >= new:sub(1, 16) then
    return true
  end
  return old:sub(18, 18) == 'o' and new:sub(18, 18) == 'f'
    and old:match('^[^ ]+', 20) ~= new:match('^[^ ]+', 20)
end
local kept = {}
for at = 1, #ARGV, 2 do
  local text = ARGV[at + 1]
  local old = redis.call('HGET', KEYS[1], ARGV[at])
  if old == text then
    -- It is there.
  elseif old and is_record(old) and keeps(old, text) then
    kept[#kept + 1] = (at + 1) / 2
    kept[#kept + 1] = old
  else
    redis.call('HSET', KEYS[1], ARGV[at], text)
  end
end
return kept
