"""A small HTTP server that is asked about messages before they are stored, and one that hears of
them after. What it says is by what a text says: `refuse:`, `change:`, `nonsense:`, `large:`,
`error:`, `hang:`; anything else is allowed."""

import http.server
import json
import threading


class Hook:
    """Both in one: `/before` decides, `/after` keeps the events."""

    def __init__(self):
        self.asked, self.events, self.headers = [], [], []
        self.hangs = threading.Event()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                hook.headers.append(handler.headers)
                if handler.path == "/after":
                    hook.events += body["events"]
                    return handler.answer(200, b"")
                hook.asked.append(body)
                return handler.decide(body["text"])

            def decide(handler, text):
                word, _, rest = text.partition(":")
                if word == "hang":
                    hook.hangs.wait(60)
                answers = {
                    "refuse": json.dumps({"action": "refuse", "reason": rest}).encode(),
                    "change": json.dumps({"action": "change", "text": rest}).encode(),
                    "nonsense": b"<html>",
                    "large": b'{"action": "refuse", "reason": "' + b"x" * (2 << 20) + b'"}',
                }
                code = 500 if word == "error" else 200
                handler.answer(code, answers.get(word, b'{"action": "allow"}'))

            def answer(handler, code, body):
                handler.send_response(code)
                handler.send_header("Content-Length", str(len(body)))
                handler.end_headers()
                handler.wfile.write(body)

            def log_message(handler, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # who asked did not wait
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.hangs.set()
        self.server.shutdown()
        self.server.server_close()
