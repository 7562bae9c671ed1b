-- Every request has a number of its own, in its path and in a header.
local number = 0

request = function()
   number = number + 1
   wrk.headers["X-Number"] = number
   return wrk.format(nil, "/n/" .. number)
end
