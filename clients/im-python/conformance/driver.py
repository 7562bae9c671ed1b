"""The driver of clients/conformance for this library: JSON lines on standard input and output."""

import asyncio
import json
import os
import ssl
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(HERE, "src"), os.path.join(HERE, "build", "python")]

from google.protobuf import json_format  # noqa: E402

import holdline_im as im  # noqa: E402
from holdline_im import proof, wire  # noqa: E402


def say(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Driver:
    def __init__(self):
        self.client, self.clock, self.store, self.held, self.asks = None, None, None, {}, 0

    def hello(self):
        return {"library": "holdline-im for Python", "version": im.__version__,
                "features": ["manual", "heartbeat", "schema", "tls", "pins", "socks5", "http_connect", "detail"]}

    def decode(self, bytes, frame_bytes_max=wire.FRAME_BYTES_MAX):  # noqa: A002
        try:
            found = wire.decode(bytearray.fromhex(bytes), frame_bytes_max)
        except wire.Fault as fault:
            return {"fault": fault.name}
        if found is None:
            return {"more": True}
        frame, length = found
        return {"answer": frame.WhichOneof("answer"), "length": length,
                "json": json_format.MessageToDict(frame, preserving_proto_field_name=True)}

    def schema(self):
        messages = im.pb.DESCRIPTOR.message_types_by_name.values()
        return {"fields": {f"{message.name}.{field.name}": field.number
                           for message in messages for field in message.fields}}

    def prove(self, method, account, password="", nonce="", challenge="", token=""):
        if method == proof.HASHED_TOKEN:
            first, expected = proof.hashed_token(account, token)
            return {"first": first.hex(), "proof": expected.hex()}
        scram = proof.Scram(account, password, nonce)
        answer, expected = scram.answer(challenge.encode())
        return {"first": scram.first.decode(), "answer": answer.decode(),
                "proof": expected.decode()}

    async def open(self, addresses, account, acknowledge="auto", random=0.5, wall_ms=0, state=None,
                   tls=None, **options):
        self.clock, self.store = im.ManualClock(wall_ms), im.MemoryStore(state)
        self.held = {}
        if tls:
            options.update(tls=ssl.create_default_context(cafile=tls["ca"]),
                           server_name=tls["name"], pins=tls.get("pins", ()))
        self.client = client = im.Client(
            addresses, account, manual=acknowledge == "manual", store=self.store, clock=self.clock,
            random_=lambda: random, on_message=self.message, on_event=self.event,
            on_sent=lambda it: say(event="sent", client_id=it.client_id, id=str(it.id), seq=it.seq),
            on_failed=lambda it: say(event="failed", client_id=it.client_id, why=it.error.code),
            on_state=self.state, on_frame=lambda name: say(event="frame", answer=name), **options)
        await client.start()

    def message(self, message):
        self.held[message.place] = message
        say(event="message", seq=message.place, id=str(message.id), to=message.raw.to,
            text=message.text, client_id=message.raw.client_id.hex(), **{"from": message.sender})

    def event(self, event):
        self.held[event.place] = event
        say(event="event", seq=event.place, **{"with": event.peer})

    def state(self, state):
        say(event="state", state=state.name, address=state.address, account=state.account,
            until=state.until, why=state.why, detail=state.detail)

    async def time(self, ms):
        self.clock.advance(ms)
        return {"next": self.clock.next()}

    async def acknowledge(self, seq):
        self.held.pop(seq).acknowledge()
        await asyncio.sleep(0)

    def send(self, to, text, client_id=None):
        try:
            return {"client_id": self.client.send(to, text, client_id=client_id)}
        except im.ImError as error:
            return {"error": error.code}

    async def history(self, count, **who):
        self.asks += 1
        asyncio.ensure_future(self.answer(self.asks, self.client, who["with"], count))
        await asyncio.sleep(0)
        return {"ask": self.asks}

    async def answer(self, ask, client, peer, count):
        try:
            messages, more = await client.history(peer, count)
            texts = [message.content.text for message in messages]
            say(event="history", ask=ask, texts=texts, more=more)
        except im.ImError as error:
            if client is self.client:
                say(event="history", ask=ask, error=error.code)

    def network(self, name):
        self.client.network(name)

    def nudge(self):
        self.client.nudge()

    async def close(self):
        await self.client.close()

    async def kill(self):
        link, self.client._link = self.client._link, None
        if link:
            link.close()
        client, self.client = self.client, None
        client.on_state = client.on_message = client.on_event = client.on_frame = None
        client.on_sent = client.on_failed = None
        return {"state": self.store.text}


async def main():
    driver, loop = Driver(), asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while True:
        line = await reader.readline()
        if not line:
            return
        command = json.loads(line)
        number, do = command.pop("n"), command.pop("do")
        try:
            answer = getattr(driver, do)(**command)
            if asyncio.iscoroutine(answer):
                answer = await answer
        except ValueError as error:
            answer = {"error": str(error)}
        await asyncio.sleep(0)
        say(n=number, **(answer or {}))


if __name__ == "__main__":
    asyncio.run(main())
