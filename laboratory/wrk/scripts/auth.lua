-- Asks for a token, then sends it with every request.
local token, path = nil, "/login"

function request()
   return wrk.format("GET", path)
end

function response(status, headers, body)
   if not token and status == 200 and headers["X-Token"] then
      token, path = headers["X-Token"], "/members"
      wrk.headers["X-Token"] = token
   end
end
