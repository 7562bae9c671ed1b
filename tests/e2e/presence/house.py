"""Holdline with Redis as its directory, and what its tests ask of both."""

import json

import fixture
from fixture import poll
from mqtt.wire import V5, Wire
from presence.redis import Redis

# Short times, so that tests are: a lease of three seconds, a call of three tenths.
PRESENCE = {"lease_ms": 3000, "timeout_ms": 300, "flush_ms": 5, "resync_per_s": 16384}
AGREE_S = 20.0


class Case(fixture.Case):
    """A test with a Redis of its own; servers are started by it."""

    SHARED = False

    def setUp(self):
        super().setUp()
        self.redis = Redis()
        self.addCleanup(self.redis.close)

    def node(self, name="node-1", url=None, presence=None, changes=None, **how):
        """A server that writes into this test's Redis."""
        sections = {
            "listen.mqtt": {"address": "127.0.0.1:0", "protocol": "mqtt", "anonymous": "loopback"},
            "presence": {"directory": url or self.redis.url, "node": name, **PRESENCE,
                         **(presence or {})},
            **(changes or {}),
        }
        server = self.start(sections, **how)
        self.settled(server)
        return server

    def client(self, server, name, keep_alive=60, **how):
        """A client of MQTT 5, connected."""
        wire = Wire(server.ports["mqtt"], V5)
        self.addCleanup(wire.close)
        wire.open(name, keep_alive=keep_alive, **how)
        return wire

    # -- what Redis has

    def stored(self, key, what=lambda record: True, deadline_s=AGREE_S):
        """Waits until Redis has such a record of a principal; the record."""
        def found():
            record = self.redis.record(key)
            return record if record and what(record) else None
        return poll(found, f"{key} is in Redis as it should be ({self.redis.record(key)})",
                    deadline_s)

    def online(self, key, node="node-1", deadline_s=AGREE_S):
        return self.stored(key, lambda it: it["online"] and it["node"] == node, deadline_s)

    def offline(self, key, deadline_s=AGREE_S):
        return self.stored(key, lambda it: not it["online"], deadline_s)

    # -- what the server says

    def standing(self, server):
        return server.ask("GET", "/v1/presence/status")

    def settled(self, server, deadline_s=AGREE_S):
        """Waits until the directory has everything, and nothing is to be compared."""
        def is_settled():
            standing = self.standing(server)
            return (standing["circuit"], standing["unwritten"], standing["resync_left"]) \
                == ("closed", 0, 0)
        try:
            return poll(is_settled, "the directory has all", deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.standing(server)}") from None

    def audit(self, server, settle_ms=1000, repair=False):
        """What the audit says; on a busy machine a directory may answer it too late at first."""
        def audited():
            status, answer = server.api("POST", "/v1/presence/audit",
                                        {"settle_ms": settle_ms, "repair": repair})
            is_late = status == 503 and answer["error"]["code"] == "directory_failed"
            self.assertTrue(is_late or status == 200, answer)
            return None if is_late else answer
        return poll(audited, "the directory answers the audit")

    def assert_agrees(self, server, settle_ms=1000):
        """Memory and Redis agree; what the audit said."""
        self.settled(server)
        answer = self.audit(server, settle_ms)
        self.assertEqual(sum(answer["persistent"].values()), 0, json.dumps(answer, indent=1))
        return answer

    def known(self, server, key):
        """What the directory says of a principal through the API; None: nothing."""
        answer = server.ask("POST", "/v1/presence/stored", {"keys": [key]})
        return answer["found"][0] if answer["found"] else None
