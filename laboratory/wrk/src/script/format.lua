-- wrk.format: an HTTP request of its arguments, and of the fields of `wrk` where they are nil.
-- It is Lua because scripts call it for every request: going out to Rust and back costs more.
local wrk = ...
local concat, each, kind, text_of = table.concat, pairs, type, tostring

return function(method, path, headers, body)
   local own = wrk.headers
   headers, body = headers or own, body or wrk.body
   if not headers.Host then
      headers.Host = own.Host
   end
   headers["Content-Length"] = body and #body
   local parts, count = { method or wrk.method, " ", path or wrk.path, " HTTP/1.1\r\n" }, 4
   for name, value in each(headers) do
      if kind(value) ~= "string" then
         value = text_of(value)
      end
      parts[count + 1], parts[count + 2], parts[count + 3] = name, ": ", value
      parts[count + 4], count = "\r\n", count + 4
   end
   parts[count + 1], parts[count + 2] = "\r\n", body
   return concat(parts)
end
