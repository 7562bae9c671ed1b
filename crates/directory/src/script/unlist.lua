-- Takes a node off the list. KEYS[1]: the list, a hash of node to boot. ARGV[1]: the node.
-- ARGV[2]: its boot; an entry of another is left alone.
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then
  return redis.call('HDEL', KEYS[1], ARGV[1])
end
return 0
