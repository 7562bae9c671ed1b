-- Percentiles and sums in lines of its own.
function done(summary, latency, requests)
   print("report", summary.requests, summary.bytes, summary.duration)
   local errors = summary.errors
   print("errors", errors.connect, errors.read, errors.write, errors.status, errors.timeout)
   for _, percent in ipairs({ 50, 90, 99, 99.999 }) do
      print(string.format("percentile %g %d", percent, latency:percentile(percent)))
   end
   local value, count = latency(1)
   print("latency", latency.min, latency.max, latency.mean, latency.stdev, #latency)
   print("first", value, count)
   print("per second", requests.min, requests.max)
end
