-- Ends a lease. KEYS[1]: the node's key. ARGV[1]: the boot; the lease of another is left alone.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
