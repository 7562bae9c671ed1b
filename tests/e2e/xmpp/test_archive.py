"""Archives (XEP-0313) with slixmpp: catching up, paging, filters, what is not there."""

import unittest

from fixture import poll
from xmpp.people import People, slixmpp, together

NS = "urn:xmpp:mam:2"


class Archive(People):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}

    def person(self, name, resource="", **how):
        return super().person(name, resource, plugins=("0004", "0059", "0297", "0313"), **how)

    async def talks(self, person, to, texts):
        """Says this, and waits until it is in both inboxes."""
        placed = self.server.count("chat_distributed_total") + 2 * len(texts)
        for text in texts:
            person.say(f"{to}@localhost", text)
        await person.ping()
        poll(lambda: self.server.count("chat_distributed_total") >= placed, "all is placed")

    @staticmethod
    async def all(person, reverse=False, **how):
        """All of an archive, page by page: ids and bodies."""
        plugin = person.client.plugin["xep_0313"]
        found = [(it["mam_result"]["id"], it["mam_result"]["forwarded"]["stanza"]["body"])
                 async for it in plugin.iterate(reverse=reverse, **how)]
        return found[::-1] if reverse else found

    @staticmethod
    async def page(person, **how):
        """One page: bodies, its first and last id, and whether that is all."""
        answer = await person.client.plugin["xep_0313"].retrieve(**how)
        bodies = [it["mam_result"]["forwarded"]["stanza"]["body"]
                  for it in answer["mam"]["results"]]
        fin = answer["mam_fin"]
        ends = [fin["rsm"][end] or None for end in ("first", "last")]
        return bodies, *ends, fin["complete"] == "true"

    async def refused(self, person, inner, to=None, kind="set"):
        """The condition by which a question is refused."""
        library = slixmpp()
        iq = person.client.make_iq(itype=kind, ito=to)
        iq.xml.append(library.xmlstream.ET.fromstring(inner))
        with self.assertRaises(library.exceptions.IqError) as caught:
            await iq.send()
        return caught.exception.condition

    @together
    async def test_who_was_away_catches_up_behind_the_last_that_it_knew(self):
        ann = await self.person(self.ann, "desk").start()
        bob = await self.person(self.bob, "desk").start()
        first = [f"first {number}" for number in range(10)]
        await self.talks(ann, self.bob, first)
        heard = [await bob.next() for _ in first]
        known = [(it["stanza_id"]["id"], it["body"]) for it in heard]
        self.assertEqual(len({identity for identity, _ in known}), 10)
        await bob.leave()
        later = [f"later {number}" for number in range(30)]
        await self.talks(ann, self.bob, later)
        phone = await self.person(self.bob, "phone").start(there=False)
        self.assertEqual(await self.all(phone, rsm={"max": 20}),
                         known + (await self.all(phone, rsm={"max": 7, "after": known[-1][0]})))
        caught_up = await self.all(phone, rsm={"max": 7, "after": known[-1][0]})
        self.assertEqual([body for _, body in caught_up], later)
        # What waited bears the same ids, and so does what is said from here on.
        phone.client.send_presence()
        waited = [await phone.next() for _ in later]
        self.assertEqual([(it["stanza_id"]["id"], it["body"]) for it in waited], caught_up)
        await self.talks(phone, self.ann, ["back"])
        page = await self.page(phone, rsm={"after": caught_up[-1][0]})
        self.assertEqual((page[0], page[3]), (["back"], True), "one's own is in it")

    @together
    async def test_a_carbon_bears_the_id_of_the_archive(self):
        desk = await self.person(self.ann, "desk").start()
        phone = await self.person(self.ann, "phone").start()
        await phone.client.plugin["xep_0280"].enable()
        await self.talks(desk, self.bob, ["hello"])
        carbon = (await phone.next("carbon_sent"))["carbon_sent"]
        identity = carbon["stanza_id"]["id"]
        self.assertEqual(len(identity), 22)
        for device in (desk, phone):
            self.assertEqual(await self.all(device), [(identity, "hello")])

    @together
    async def test_it_is_paged_backwards_from_its_end_and_filtered(self):
        ann, bob = await self.person(self.ann).start(), await self.person(self.bob).start()
        carol = self.account("carol")
        self.assertEqual(await self.page(ann), ([], None, None, True), "nothing was said")
        await self.talks(ann, self.bob, [f"to bob {number}" for number in range(25)])
        await self.talks(ann, carol, [f"to carol {number}" for number in range(25)])
        await self.talks(bob, self.ann, ["of bob"])
        everything = await self.all(ann, rsm={"max": 9})
        bodies = [body for _, body in everything]
        to_bob, to_carol = bodies[:25], bodies[25:50]
        self.assertEqual(to_bob, [f"to bob {number}" for number in range(25)])
        self.assertEqual(to_carol, [f"to carol {number}" for number in range(25)])
        self.assertEqual(bodies[50:], ["of bob"])
        self.assertEqual(await self.all(ann, reverse=True, rsm={"max": 10}), everything)
        # The ids are the same, whichever way one came to them.
        with_bob = f"{self.bob}@localhost"
        for reverse in (False, True):
            found = await self.all(ann, reverse=reverse, with_jid=with_bob, rsm={"max": 8})
            self.assertEqual(found, everything[:25] + everything[50:])
        found = await self.all(ann, with_jid=f"{carol}@localhost", rsm={"max": 30})
        self.assertEqual(found, everything[25:50])
        page = await self.page(ann, rsm={"max": 3, "before": everything[25][0]})
        self.assertEqual(page, (to_bob[22:], everything[22][0], everything[24][0], False))
        page = await self.page(ann, with_jid=with_bob, rsm={"max": 3, "before": everything[50][0]})
        self.assertEqual(page[0], to_bob[22:])
        page = await self.page(ann, rsm={"max": 100_000})
        self.assertEqual((page[0], page[3]), (bodies, True), "as much as there may be, no error")

    @together
    async def test_it_is_filtered_by_time(self):
        ann = await self.person(self.ann).start()
        for number in range(10):
            await self.talks(ann, self.bob, [str(number)])
        results = (await ann.client.plugin["xep_0313"].retrieve())["mam"]["results"]
        stamps = [it["mam_result"]["forwarded"]["delay"]["stamp"] for it in results]
        bodies = [it["mam_result"]["forwarded"]["stanza"]["body"] for it in results]
        self.assertEqual(stamps, sorted(stamps))
        for with_jid in (None, f"{self.bob}@localhost"):
            for start, end in ((3, 6), (0, 9), (9, 9)):
                page = await self.page(ann, start=stamps[start], end=stamps[end],
                                       with_jid=with_jid)
                within = [body for body, stamp in zip(bodies, stamps)
                          if stamps[start] <= stamp <= stamps[end]]
                self.assertEqual((page[0], page[3]), (within, True))

    @together
    async def test_it_outlives_the_server_s_death(self):
        ann, bob = await self.person(self.ann).start(), await self.person(self.bob).start()
        await self.talks(ann, self.bob, ["one", "two"])
        known = [(await bob.next())["stanza_id"]["id"] for _ in range(2)]
        await bob.leave()
        await self.talks(ann, self.bob, ["three"])
        before = await self.all(ann)
        self.server.kill()
        self.server.start()
        bob = await self.person(self.bob, "other").start(there=False)
        page = await self.page(bob, rsm={"after": known[0]})
        self.assertEqual((page[0], page[3]), (["two", "three"], True))
        ann = await self.person(self.ann).start()
        self.assertEqual(await self.all(ann), before)
        await self.talks(ann, self.bob, ["four"])
        page = await self.page(bob, rsm={"after": page[2]})
        self.assertEqual((page[0], page[3]), (["four"], True))

    @together
    async def test_what_was_called_back_is_not_in_it(self):
        ann = await self.person(self.ann).start()
        await self.talks(ann, self.bob, ["one", "secret", "three"])
        before = await self.all(ann)
        self.im("recall", self.ann, self.bob, "2")
        for with_jid in (None, f"{self.bob}@localhost"):
            found = await self.all(ann, with_jid=with_jid)
            self.assertEqual(found[:-1], [before[0], before[2]])
            self.assertEqual(found[-1][1], "(A message was called back.)", "as a retraction")
            page = await self.page(ann, with_jid=with_jid, rsm={"after": before[1][0]})
            self.assertEqual(page[0], ["three", found[-1][1]], "its id leads on")

    @together
    async def test_what_cannot_be_answered_is_refused_by_its_condition(self):
        ann = await self.person(self.ann).start()
        await self.talks(ann, self.bob, ["hello"])
        plain = f"<query xmlns='{NS}'/>"
        unknown = ("AAAAAAAAAAEAAAAAAAAAAQ", "x")
        for identity in unknown:
            after = (f"<query xmlns='{NS}'><set xmlns='http://jabber.org/protocol/rsm'>"
                     f"<after>{identity}</after></set></query>")
            self.assertEqual(await self.refused(ann, after), "item-not-found")
        self.assertEqual(await self.refused(ann, plain, to=f"{self.bob}@localhost"), "forbidden")

        def form(name, value):
            return (f"<query xmlns='{NS}'><x xmlns='jabber:x:data' type='submit'>"
                    f"<field var='FORM_TYPE'><value>{NS}</value></field>"
                    f"<field var='{name}'><value>{value}</value></field></x></query>")
        self.assertEqual(await self.refused(ann, form("start", "yesterday")), "bad-request")
        self.assertEqual(await self.refused(ann, form("subject", "x")), "feature-not-implemented")
        self.assertEqual(len(await self.all(ann)), 1, "the stream goes on")

    @together
    async def test_the_server_says_what_archives_do(self):
        ann = await self.person(self.ann).start()
        plugin = ann.client.plugin
        info = await plugin["xep_0030"].get_info(f"{self.ann}@localhost")
        self.assertLessEqual({NS, f"{NS}#extended", "urn:xmpp:sid:0"},
                             set(info["disco_info"]["features"]))
        fields = (await plugin["xep_0313"].get_fields()).get_fields()
        self.assertLessEqual({"with", "start", "end", "before-id", "after-id", "ids"}, set(fields))
        await self.talks(ann, self.bob, ["first", "last"])
        both = await self.all(ann)
        told = (await plugin["xep_0313"].get_archive_metadata())["mam_metadata"]
        self.assertEqual([told["start"]["id"], told["end"]["id"]],
                         [identity for identity, _ in both])


if __name__ == "__main__":
    unittest.main()
