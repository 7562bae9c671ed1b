"""A tiny HTTP server that knows what it was asked: the truth that wrk's figures are held against.

Paths: /login gives X-Token, /members wants it, /slow?MS answers late, /close closes afterwards,
/chunked answers in chunks, /no is 404, /endless has a body that ends with the connection; anything
else is 200 with the path as body. /_seen tells all requests so far and forgets them.
"""
import asyncio
import json
import threading


class Server:
    """Listens on a free port of loopback until it is closed."""

    def __init__(self, host="127.0.0.1"):
        self.requests, self.connections, self.port = [], 0, None
        self.loop = asyncio.new_event_loop()
        begun = threading.Event()

        def run():
            asyncio.set_event_loop(self.loop)
            self.server = self.loop.run_until_complete(
                asyncio.start_server(self.serve, host, 0, backlog=1024))
            self.port = self.server.sockets[0].getsockname()[1]
            begun.set()
            self.loop.run_forever()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        begun.wait(10)

    def close(self):
        async def end():
            self.server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.loop.stop()

        asyncio.run_coroutine_threadsafe(end(), self.loop)
        self.thread.join(10)

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.port}{path}"

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ")
                headers = dict(line.split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(headers.get("Content-Length", 0)))
                self.requests.append((method, path, headers, body))
                goes_on = await self.answer(path, headers, writer)
                await writer.drain()
                if not goes_on:
                    break
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, path, headers, writer):
        status, more, body = "200 OK", "", path.encode()
        if path == "/login":
            more = "X-Token: abc\r\n"
        elif path == "/members" and headers.get("X-Token") != "abc":
            status = "401 No"
        elif path == "/no":
            status = "404 Not Found"
        elif path.startswith("/slow?"):
            await asyncio.sleep(int(path[6:]) / 1000)
        elif path == "/close":
            more = "Connection: close\r\n"
        elif path == "/chunked":
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                         b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
            return True
        elif path == "/endless":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
            return False
        elif path == "/drop":
            return False
        elif path == "/_seen":
            body, self.requests = json.dumps(len(self.requests)).encode(), []
        writer.write(f"HTTP/1.1 {status}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode()
                     + body)
        return path != "/close"
