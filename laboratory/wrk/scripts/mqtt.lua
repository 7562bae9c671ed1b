-- Every third request of a client is a heartbeat, the others are messages.
local turn = {}

function delay(client)
   return 20
end

function request(client)
   turn[client] = (turn[client] or 0) + 1
   if turn[client] % 3 == 0 then
      return nil
   end
   return { "wrk/" .. client, "message " .. turn[client], turn[client] % 3 - 1 }
end
