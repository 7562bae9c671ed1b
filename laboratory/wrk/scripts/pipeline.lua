-- Three requests at once, on one connection.
local together

init = function(args)
   local texts = {}
   for _, path in ipairs({ "/a", "/b", "/c" }) do
      texts[#texts + 1] = wrk.format(nil, path)
   end
   together = table.concat(texts)
end

request = function()
   return together
end
