"""Who gets in to the console, for how long, and what pages of others get by its cookie."""

import http.client
import http.server
import json
import threading

from console.desk import Consoles, Operator
from fixture import DEADLINE_S, Case, poll

OWN = {"Sec-Fetch-Site": "same-origin", "Holdline-Console": "1"}


class Cookies(Case):
    SHARED = False

    def call(self, server, method, path, body=None, **headers):
        link = http.client.HTTPConnection(*server.ports["api"], timeout=DEADLINE_S)
        self.addCleanup(link.close)
        head = {name.replace("_", "-"): value for name, value in headers.items()}
        link.request(method, path, json.dumps(body) if body is not None else None, head)
        answer = link.getresponse()
        return answer.status, answer.headers, answer.read()

    def log_in(self, server):
        status, head, _ = self.call(server, "POST", "/v1/session", {"token": server.token}, **OWN)
        self.assertEqual(status, 200)
        return head["Set-Cookie"].split(";")[0]

    def test_a_session_opens_ends_by_its_time_and_by_a_restart(self):
        server = self.start({"api": {"address": "127.0.0.1:0", "console_idle_s_max": 1}})
        cookie = self.log_in(server)
        self.assertEqual(self.call(server, "GET", "/v1/clients", **OWN, Cookie=cookie)[0], 200)
        # To use it would keep it.
        poll(lambda: "holdline_console_sessions 0\n" in server.metrics(), "it is over")
        status, _, body = self.call(server, "GET", "/v1/clients", **OWN, Cookie=cookie)
        self.assertEqual((status, json.loads(body)["error"]["code"]), (401, "session_over"))
        cookie = self.log_in(server)
        server.stop()
        server.start()
        status, _, body = self.call(server, "GET", "/v1/clients", **OWN, Cookie=cookie)
        self.assertEqual(status, 401, "sessions are in memory alone")

    def test_wrong_tokens_are_held_up(self):
        server = self.start({"api": {"address": "127.0.0.1:0", "console_failures_a_source_max": 3}})
        told = [self.call(server, "POST", "/v1/session", {"token": "hlt_no"}, **OWN)[0]
                for _ in range(4)]
        self.assertEqual(told, [401, 401, 401, 429])
        status, head, _ = self.call(server, "POST", "/v1/session", {"token": server.token}, **OWN)
        self.assertEqual(status, 429)
        self.assertLessEqual(int(head["Retry-After"]), 60)
        # Programs with a token are no part of it.
        self.assertEqual(server.status()["connections"], 0)

    def test_it_is_told_of_at_the_start_and_can_be_left_out(self):
        server = self.start()
        self.assertRegex(server.welcome, r"Open the console in a browser and log in with the token in .*api\.token:\n"
                                         r"  http://127\.0\.0\.1:\d+/\n")
        self.assertIn(b"console.js", self.call(server, "GET", "/", Accept="text/html")[2])
        self.assertIn(b"GET  /healthz", self.call(server, "GET", "/")[2])
        server = self.start({"api": {"address": "127.0.0.1:0", "console": False}})
        self.assertNotIn("The console", server.welcome)
        self.assertNotIn(b"console.js", self.call(server, "GET", "/", Accept="text/html")[2])
        self.assertEqual(self.call(server, "GET", "/console/console.js")[0], 404)


class Evil(http.server.BaseHTTPRequestHandler):
    """A page of another port, which browsers count to the same site and send cookies along."""

    def do_GET(self):
        body = b"<!doctype html><title>evil</title>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Browsers(Consoles):
    def test_a_wrong_token_is_told_and_a_log_out_ends_the_session(self):
        operator = Operator(self.chromium, self.server).open()
        operator.page.type("#token", "hlt_wrong")
        operator.page.key("Enter", "#token")
        operator.says("Invalid token.")
        operator.fill("#token", self.server.token)
        operator.page.key("Enter", "#token")
        operator.page.until("document.getElementById('frame')", "in")
        kept = operator.page.run("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        self.assertNotIn(self.server.token, kept)
        self.assertNotIn("holdline", kept, "scripts do not see the cookie")
        operator.open()
        operator.page.until("document.getElementById('frame')", "still in after a reload")
        operator.click("Log out")
        operator.says("You are logged out.")
        operator.open()
        operator.page.until("document.getElementById('door')", "still out after a reload")
        self.calm(operator, but=("401",))

    def test_who_is_revoked_is_out_at_once(self):
        token = self.token("monday", "read")
        operator = self.operator(token).go("clients", "Clients")
        self.server.ask("DELETE", "/v1/tokens/monday")
        operator.page.until("document.getElementById('door')", "out", 15)
        operator.says("Session ended. Log in again.")
        self.calm(operator, but=("401",))

    def test_a_page_of_another_origin_changes_and_reads_nothing(self):
        evil = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
        self.addCleanup(evil.server_close)
        self.addCleanup(evil.shutdown)
        threading.Thread(target=evil.serve_forever, args=(0.05,), daemon=True).start()
        self.server.ask("PUT", "/v1/users/ann", {"password": "pencil"})
        epoch = self.server.ask("GET", "/v1/users/ann")["epoch"]
        operator = self.operator()
        other = self.chromium.page(context=operator.page.context)
        other.open(f"http://127.0.0.1:{evil.server_port}/")
        kick = json.dumps(operator.base + "v1/users/ann/kick")
        read = json.dumps(operator.base + "v1/users")
        # The answer is opaque; whether it was done, the server knows.
        other.run(f"fetch({kick}, {{ method: 'POST', mode: 'no-cors', credentials: 'include' }}).then(() => 1)")
        told = other.run(f"fetch({read}, {{ credentials: 'include' }}).then(it => it.text(), () => 'refused')")
        self.assertEqual(told, "refused")
        other.run(f"""(() => {{ const form = document.createElement('form'); form.method = 'POST';
                      form.action = {kick}; document.body.append(form); form.submit(); }})()""")
        entry = poll(lambda: [it for it in self.server.ask("GET", "/v1/audit_log?outcome=refused")["entries"]
                              if it["code"] == "cross_origin"], "the refusal is entered")
        self.assertTrue(entry)
        self.assertEqual(self.server.ask("GET", "/v1/users/ann")["epoch"], epoch)
        # The console's own page goes on, in front again.
        operator.page.call("Page.bringToFront")
        operator.go("users?user=ann", "Users and rules").click("End all sessions")
        operator.click("End sessions", "dialog button")
        operator.says("All sessions of ann were ended.")
        self.assertNotEqual(self.server.ask("GET", "/v1/users/ann")["epoch"], epoch)
        self.calm(operator)
