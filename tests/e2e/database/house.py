"""One MariaDB for the tests of a class, emptied for each, and servers over it."""

import fixture
from database.mariadb import PASSWORD, MariaDb
from fixture import poll
from im.wire import Device, schema
from mqtt.wire import CONNACK, V5, Wire, connect

PORTS = {"listen.any": {"address": "127.0.0.1:0", "anonymous": "no"},
         "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}
LIGHT = {"hash_cost": "light", "scram_hashes": ["sha-256", "sha-1"]}


class Case(fixture.Case):
    SHARED = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        schema()
        cls.database = MariaDb()
        cls.addClassCleanup(cls.database.close)

    def setUp(self):
        super().setUp()
        if self.database.process.poll() is not None:
            self.database.start()
        self.database.ask("DROP DATABASE holdline; CREATE DATABASE holdline", "mysql")

    def configuration(self, **sections):
        """Of a server whose accounts are in the database."""
        return {**PORTS, "access": LIGHT, "accounts": {"store": self.database.url},
                "mysql": {"password": PASSWORD, "timeout_ms": 2000}, **sections}

    def node(self, wait=True, data=None, **sections):
        """A server over the database, which it has reached."""
        server = self.start(self.configuration(**sections), data=data)
        if wait:
            self.there(server)
        return server

    def there(self, server):
        """The server follows the database, and has read all of it."""
        def follows():
            return all(server.reading(f"accounts_database_{name}") == 1
                       for name in ("up", "whole"))
        poll(follows, "the database is there", 30)

    def account(self, server, name, password, **more):
        return server.ask("PUT", f"/v1/users/{name}", {"password": password, **more})

    # -- logins

    def mqtt(self, server, name, password):
        """The code of the CONNACK, and the connection."""
        wire = Wire(server.ports["any"], V5)
        self.addCleanup(wire.close)
        wire.send(connect(V5, name, user=name, password=password))
        return wire.expect(CONNACK).code, wire

    def im(self, server, name, password):
        """What the answer is, and the connection."""
        link = Device(server.ports["any"])
        self.addCleanup(link.close)
        link.ask(login={"name": name, "device": "phone", "password": password.encode()})
        kind, answer = link.frame()
        return (kind, getattr(answer, "reason", None)), link
