-- Threads get numbers, count for themselves, and are asked in the end.
local count = 1
local threads = {}

function setup(thread)
   thread:set("id", count)
   thread:set("limits", { thread = 10 * count })
   threads[count] = thread
   count = count + 1
end

function init(args)
   requests, responses, word = 0, 0, args[1]
   print("thread " .. id .. " of limit " .. limits.thread .. " hears " .. tostring(word))
end

function request()
   requests = requests + 1
   return wrk.request()
end

function response()
   responses = responses + 1
end

function done(summary)
   local sum = 0
   for at, thread in ipairs(threads) do
      local id, made, got = thread:get("id"), thread:get("requests"), thread:get("responses")
      print(string.format("thread %d made %d and got %d", id, made, got))
      sum = sum + got
   end
   print("sum", sum, summary.requests, threads[1]:get("word"), threads[1]:get("nothing"))
end
