"""A site of its own with a page and a library, which talks to a server elsewhere."""

import functools
import http.server
import mimetypes
import os
import threading

mimetypes.add_type("text/javascript", ".cjs")


class Pages(http.server.BaseHTTPRequestHandler):
    """Files by their paths; what ends with a slash is a folder."""

    def __init__(self, files, *arguments):
        self.files = files
        super().__init__(*arguments)

    def file(self):
        path = self.path.split("?")[0]
        for place, file in self.files.items():
            if path == place or place != "/" and place.endswith("/") and path.startswith(place):
                found = os.path.normpath(file + path[len(place):])
                return found if found.startswith(file) and os.path.isfile(found) else None
        return None

    def do_GET(self):
        file = self.file()
        kind = mimetypes.guess_type(file)[0] if file else None
        self.send_response(200 if file else 404)
        self.send_header("Content-Type", kind or "text/plain")
        self.end_headers()
        if file:
            with open(file, "rb") as content:
                self.wfile.write(content.read())

    def log_message(self, *_):
        pass


def site(test, files):
    """Opens a site for the tests of a class; its origin."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Pages, files))
    server.handle_error = lambda *_: None  # connections that the browser lets go
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    test.addClassCleanup(server.server_close)
    test.addClassCleanup(server.shutdown)
    return f"http://127.0.0.1:{server.server_port}"
