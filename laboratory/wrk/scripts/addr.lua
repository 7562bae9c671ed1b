-- Threads take the addresses of the name in turn, those that take calls.
local addrs, turn

function setup(thread)
   if not addrs then
      addrs, turn = wrk.lookup(wrk.host, wrk.port or "http"), 0
      for at = #addrs, 1, -1 do
         if not wrk.connect(addrs[at]) then
            table.remove(addrs, at)
         end
      end
   end
   turn = turn + 1
   thread.addr = addrs[(turn - 1) % #addrs + 1]
end

function init(args)
   print(string.format("thread addr: %s", tostring(wrk.thread.addr)))
end
