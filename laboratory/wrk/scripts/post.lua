-- A form, sent by POST; there is no function: wrk makes the request of these.
wrk.method = "POST"
wrk.body = "name=tom&city=bonn"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
