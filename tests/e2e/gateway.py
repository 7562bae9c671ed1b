"""A small push gateway of an operator: what a server posts to it, and how it answers."""

import hashlib
import hmac
import http.server
import json
import threading

from fixture import poll


class Gateway:
    """Listens on a port of its own; `answers` says with which status each request is answered, and
    then 200, with the tokens that are gone."""

    SECRET = "secret-of-the-push-gateway"

    def __init__(self):
        self.bodies, self.answers, self.gone, self.forged = [], [], [], []
        gateway = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                signature = dict(part.split("=", 1) for part in
                                 self.headers["Holdline-Signature"].split(","))
                signed = f"{signature['t']}.".encode() + body
                expected = hmac.new(gateway.SECRET.encode(), signed, hashlib.sha256).hexdigest()
                if signature["v1"] != expected:
                    gateway.forged.append(body)
                status = gateway.answers.pop(0) if gateway.answers else 200
                told = json.loads(body)
                if status == 200:
                    gateway.bodies.append(told)
                gone = [token for token in told["tokens"] if token in gateway.gone]
                answer = json.dumps({"rejected": gone}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/push"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def changes(self, **more):
        """The configuration of a server that posts here."""
        return {"gateway": self.url, "secret": self.SECRET, "window_ms": 50, "retry_ms_min": 50,
                "attended_ms_max": 200, **more}

    def next(self, count=1):
        """So many bodies, when they have come; they are taken."""
        poll(lambda: len(self.bodies) >= count, f"{count} notifications")
        taken, self.bodies[:count] = self.bodies[:count], []
        assert not self.forged, "each is signed"
        return taken if count > 1 else taken[0]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
