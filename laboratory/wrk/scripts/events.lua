-- What happens to clients is counted in globals that done() asks for.
local threads = {}
connects, heartbeats, messages, causes, stages = 0, 0, 0, {}, {}

function setup(thread) threads[#threads + 1] = thread end
function delay() return 20 end
function connect(client) connects = connects + 1 end
function heartbeat(client, us) heartbeats = heartbeats + (us > 0 and 1 or 0) end
function message(client, body, topic) messages = messages + 1; last = topic .. "=" .. body end
function disconnect(client, cause) causes[cause] = (causes[cause] or 0) + 1 end
function stage(name) stages[#stages + 1] = name end

function done(summary)
   for _, thread in ipairs(threads) do
      print("events", thread:get("connects"), thread:get("heartbeats"), thread:get("messages"))
      print("stages", table.concat(thread:get("stages"), " "))
      for cause, count in pairs(thread:get("causes")) do print("cause", cause, count) end
      print("last", thread:get("last"))
   end
end
