"""Servers on machines of their own: found by the names of their domains, at the usual ports, over a
net that fails without telling anybody."""

import unittest

import names
from fixture import Case, Server, poll
from machines import Net, possible
from xmpp.people import slixmpp, together
from xmpp.test_federation import Neighbour, own_name

WHY_NOT = possible()
DOMAINS = {"a.example": "a", "b.example": "b"}


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Machines(Case):
    """Two servers, of a.example and b.example; the people stand at the bridge between them."""

    SHARED = False

    @classmethod
    def setUpClass(cls):
        slixmpp()
        cls.server = None
        cls.net = Net(DOMAINS.values())
        cls.addClassCleanup(cls.net.close)
        cls.enterClassContext(cls.net.at_bridge())
        cls.zone = names.Zone(host=Net.BRIDGE)
        cls.addClassCleanup(cls.zone.close)
        cls.pair = {}
        for domain, machine in DOMAINS.items():
            address = cls.net.addresses[machine]
            host = f"xmpp.{domain}"
            cls.zone.records[(f"_xmpp-server._tcp.{domain}", names.SRV)] = [
                names.place(0, 0, 5269, host)]
            cls.zone.records[(host, names.A)] = [names.address(address)]
            server = Server({
                "chat": {"domain": domain}, "names": {"servers": [cls.zone.at]},
                "api": {"address": f"{address}:0"},
                "federation": {"enabled": True, "require_tls": False, "public_only": False},
                "listen.xmpp": {"address": f"{address}:5222", "protocol": "xmpp"},
                "listen.servers": {"address": f"{address}:5269", "protocol": "xmpp-server"},
            }, prefix=cls.net.words(machine))
            cls.pair[domain] = server
            cls.addClassCleanup(server.close)

    def setUp(self):
        super().setUp()
        self.servers = list(self.pair.values())
        self.people = []

    def friend(self, name, domain):
        server, name = self.pair[domain], own_name(self, name)
        server.ask("PUT", f"/v1/users/{name}", {"password": "secret"})
        return self.returns(f"{name}@{domain}")

    def returns(self, jid):
        """Somebody who has an account comes."""
        host, port = self.pair[jid.partition("@")[2]].ports["xmpp"]
        friend = Neighbour(port, f"{jid}/desk", "secret")
        friend.host, friend.jid = host, jid
        self.people.append(friend)
        return friend

    async def two(self):
        """Ann and Bob, who have spoken: there is a stream."""
        ann, bob = self.friend("ann", "a.example"), self.friend("bob", "b.example")
        await ann.here()
        await bob.here()
        ann.say(bob.jid, "there?")
        self.assertEqual(await bob.hears(1), ["there?"])
        return ann, bob

    async def say_all(self, ann, whom):
        """So much is said that nobody hears while the other machine is cut off."""
        said = [f"{number}" for number in range(20)]
        for text in said:
            ann.say(whom.jid, text)
        await ann.ping()
        return said

    @together
    async def test_a_net_that_is_gone_for_a_while_loses_nothing(self):
        ann, bob = await self.two()
        self.net.cut("b")
        said = await self.say_all(ann, bob)
        self.net.join("b")
        self.assertEqual(await bob.hears(len(said)), said)
        bob.say(ann.jid, "all of them")
        self.assertEqual(await ann.hears(1), ["all of them"])

    @together
    async def test_what_a_machine_had_not_taken_when_it_died_comes_when_it_is_back(self):
        ann, _ = await self.two()
        carol, other = self.friend("carol", "b.example"), self.pair["b.example"]
        self.net.cut("b")
        said = await self.say_all(ann, carol)
        other.kill()  # nothing that it could say leaves the machine
        other.start()
        self.net.join("b")
        await carol.here()
        self.assertEqual(await carol.hears(len(said)), said)
        ann.say(carol.jid, "and once more")
        self.assertEqual(await carol.hears(1), ["and once more"], "none came twice")

    @together
    async def test_what_a_server_had_not_got_rid_of_when_it_died_goes_when_it_is_back(self):
        ann, bob = await self.two()
        own = self.pair["a.example"]

        def queued(messages):
            return f"\nholdline_chat_queued_out {messages}\n" in own.metrics()

        poll(lambda: queued(0), "the other server has acknowledged the first message")
        self.net.cut("b")
        said = await self.say_all(ann, bob)
        poll(lambda: queued(len(said)), "all of it is stored")
        own.kill()
        own.start()
        self.net.join("b")
        self.assertEqual(await bob.hears(len(said)), said)
        ann = self.returns(ann.jid)
        await ann.here()
        ann.say(bob.jid, "and once more")
        self.assertEqual(await bob.hears(1), ["and once more"], "none came twice")


if __name__ == "__main__":
    unittest.main()
