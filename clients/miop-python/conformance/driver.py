"""The driver of clients/conformance for this library: JSON lines on standard input and output."""

import asyncio
import json
import os
import ssl
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src"))

import holdline_miop as miop  # noqa: E402
from holdline_miop import wire  # noqa: E402

U64 = {"client_ts", "last_msg_id", "session_epoch", "server_time"}
RAW = {"client_nonce", "server_nonce", "mac", "token", "resume_token"}


def say(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def to_json(frame):
    if frame.skipped:
        return {"opcode": frame.opcode, "skipped": True}
    properties = {name: str(value) if name in U64 else value.hex() if name in RAW else value
                  for name, value in frame.properties.items()}
    out = {"opcode": frame.opcode, "properties": properties}
    if frame.records is None:
        out["payload"] = frame.payload.hex()
    else:
        out["records"] = [record_json(record) for record in frame.records]
    for flag in ("ack_req", "dup"):
        if getattr(frame, flag):
            out[flag] = True
    if frame.seq is not None:
        out["seq"] = frame.seq
    return out


def record_json(record):
    return {"id": str(record.id), "app_id": record.app_id, "silent": record.silent,
            "high": record.high, "expire_at": record.expire_at,
            "collapse": record.collapse.hex(), "body": record.body.hex()}


def from_json(value):
    properties = {name: int(it) if name in U64 else bytes.fromhex(it) if name in RAW else it
                  for name, it in value["properties"].items()}
    return wire.Frame(value["opcode"], properties, bytes.fromhex(value.get("payload", "")),
                      value.get("seq"))


class Store(miop.MemoryStore):
    """One that can break."""

    is_broken = False

    def save(self, text):
        if self.is_broken:
            raise OSError("broken")
        super().save(text)


class Driver:
    def __init__(self):
        self.client, self.clock, self.store, self.held = None, None, None, {}

    def hello(self):
        return {"library": "holdline-miop for Python", "version": miop.__version__,
                "features": ["tls", "pins", "socks5", "http_connect", "detail", "break_store"]}

    def decode(self, bytes, frame_bytes_max=65536):  # noqa: A002
        try:
            found = wire.decode(bytearray.fromhex(bytes), frame_bytes_max)
        except wire.Fault as fault:
            return {"fault": fault.name}
        if found is None:
            return {"more": True}
        return {"frame": to_json(found[0]), "length": found[1]}

    def encode(self, frame):
        return {"bytes": wire.encode(from_json(frame)).hex()}

    def mac(self, secret, product, device, client_ts, client_nonce, caps, server_nonce):
        mac = wire.sign(bytes.fromhex(secret), product, device, int(client_ts),
                        bytes.fromhex(client_nonce), caps, bytes.fromhex(server_nonce))
        return {"mac": mac.hex()}

    async def open(self, addresses, acknowledge="auto", heartbeat=None, random=0.5, wall_ms=0,
                   state=None, tls=None, secret=None, **options):
        self.clock, self.store = miop.ManualClock(wall_ms), Store(state)
        self.held = {}
        if secret is not None:
            options["secret"] = bytes.fromhex(secret)
        if heartbeat:
            options["heartbeat"] = (heartbeat["shortest"], heartbeat["first"], heartbeat["longest"])
        if tls:
            options.update(tls=ssl.create_default_context(cafile=tls["ca"]),
                           server_name=tls["name"], pins=tls.get("pins", ()))
        self.client = client = miop.Client(
            addresses, manual=acknowledge == "manual", store=self.store, clock=self.clock,
            random_=lambda: random, on_push=self.push, on_state=self.state,
            on_stored=lambda name: say(event="stored", client_id=name),
            on_pulled=lambda remaining: say(event="pulled", remaining=remaining),
            on_frame=lambda opcode: say(event="frame", opcode=opcode), **options)
        await client.start()

    def push(self, push):
        self.held[push.id] = push
        say(event="push", **record_json(push))

    def state(self, state):
        event = {"event": "state", "state": state.name}
        if state.name == "connecting":
            event["address"] = state.address
        elif state.name == "bound":
            event.update(resumed=state.resumed, heartbeat=state.heartbeat,
                         offline_count=state.offline_count)
        elif state.name == "waiting":
            event.update(until=state.until, why=state.why, detail=state.detail)
        elif state.name == "ended":
            event["why"] = state.why
            if state.result is not None:
                event["result"] = state.result
        say(**event)

    async def time(self, ms):
        self.clock.advance(ms)
        return {"next": self.clock.next()}

    async def acknowledge(self, id):  # noqa: A002
        self.held.pop(int(id)).acknowledge()
        await asyncio.sleep(0)

    def reject(self, id):  # noqa: A002
        self.held.pop(int(id)).reject()

    def report(self, payload, client_id=None):
        try:
            return {"client_id": self.client.report(bytes.fromhex(payload), client_id)}
        except miop.QueueFull as full:
            return {"error": str(full)}

    def opened(self, id):  # noqa: A002
        return {"client_id": self.client.opened(int(id))}

    def dismissed(self, id):  # noqa: A002
        return {"client_id": self.client.dismissed(int(id))}

    def pull(self, count):
        self.client.pull(count)

    def break_store(self, broken):
        self.store.is_broken = broken

    def nudge(self):
        self.client.nudge()

    def network(self, name):
        self.client.network(name)

    def close(self):
        asyncio.ensure_future(self.client.close())

    async def kill(self):
        link, self.client._link = self.client._link, None
        if link:
            link.close()
        client, self.client = self.client, None
        client.on_state = client.on_push = client.on_frame = None
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
