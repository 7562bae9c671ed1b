"""What messages can do between people of XMPP and of IM: each sees what the other says."""

import asyncio
import json
import unittest

from fixture import DEADLINE_S, poll
from im.wire import Device
from xmpp.people import People, slixmpp, together

STATES = "http://jabber.org/protocol/chatstates"
DISPLAYED = "urn:xmpp:mds:displayed:0"


class Words(People):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}

    def device(self, name, device="phone"):
        """Somebody's device of IM."""
        it = Device(self.server.ports["any"])
        self.addCleanup(it.close)
        it.account = it.login(name, device, password=f"secret of {name}".encode()).account
        return it

    async def xmpp(self, name, *plugins):
        return await self.person(name, "desk", plugins=("0085", "0334", *plugins)).start()

    @staticmethod
    def makes(device, *members):
        """A group with these members, of whoever has the device."""
        return device.asks("group", "changed", client_id=b"0123456789abcdef", verb=1,
                           title="lunch", members=list(members)).group


class Typing(Words):
    CHANGES = {**Words.CHANGES, "chat": {"transients_a_minute_max": 120}}

    def state(self, person, to, state, kind="chat"):
        message = person.client.make_message(to, mtype=kind)
        message["chat_state"] = state
        message.send()

    @together
    async def test_people_of_xmpp_and_of_im_see_each_other_type(self):
        ann, bob = await self.xmpp(self.ann), self.device(self.bob)
        self.state(ann, f"{self.bob}@localhost", "composing")
        await ann.ping()
        told = bob.next("transient")
        self.assertEqual((told.state, getattr(told, "from"), told.device),
                         (1, f"{self.ann}@localhost", "desk"))
        bob.ask(transient={"to": self.ann, "state": 2})
        heard = await ann.next("chatstate")
        self.assertEqual((heard["chat_state"], heard["body"], heard["from"].full),
                         ("paused", "", f"{self.bob}@localhost/phone"))
        self.assertEqual(bob.pull_all(), [], "it is in no inbox")

    @together
    async def test_a_text_that_is_not_to_be_stored_is_not(self):
        ann, bob = await self.xmpp(self.ann), await self.xmpp(self.bob)
        message = ann.client.make_message(f"{self.bob}@localhost", "psst", mtype="chat")
        message.enable("no-store")
        message.send()
        self.assertEqual(await bob.hears(1), ["psst"])
        ann.say(f"{self.bob}@localhost", "kept")
        self.assertEqual(await bob.hears(1), ["kept"])
        await bob.ping()
        phone = self.device(self.bob)
        self.assertEqual([text for _, text in phone.pull_until(1)], ["kept"])

    @together
    async def test_members_of_a_room_see_who_types_there(self):
        bob = self.device(self.bob)
        group = self.makes(bob, self.ann)
        ann = await self.xmpp(self.ann, "0045")
        bob.ask(transient={"to": group, "state": 1})
        await ann.client.plugin["xep_0045"].join_muc_wait(group, self.ann, timeout=20)
        self.assertTrue(ann.queues["chatstate"].empty(), "she was not in it")
        bob.ask(transient={"to": group, "state": 1})
        heard = await ann.next("chatstate")
        self.assertEqual((heard["chat_state"], heard["type"], heard["from"].full),
                         ("composing", "groupchat", f"{group}/{self.bob}"))
        self.state(ann, group, "active", "groupchat")
        await ann.ping()
        told = bob.next("transient")
        self.assertEqual((told.state, told.to), (3, group))

    @together
    async def test_a_text_in_two_languages_keeps_both_and_im_has_one(self):
        ann, bob = await self.xmpp(self.ann), await self.xmpp(self.bob)
        phone = self.device(self.bob)
        ann.client.send_raw(
            f"<message to='{self.bob}@localhost' type='chat' id='two'>"
            "<body xml:lang='en'>hi</body><body xml:lang='de'>hallo</body></message>")
        heard = await bob.next()
        lang = "{http://www.w3.org/XML/1998/namespace}lang"
        bodies = {it.get(lang): it.text for it in heard.xml.iter("{jabber:client}body")}
        self.assertEqual(bodies, {"en": "hi", "de": "hallo"})
        self.assertEqual(phone.next("message").message.content.text, "hi")

    @together
    async def test_messages_without_a_body_arrive_or_are_answered(self):
        ann, bob = await self.xmpp(self.ann), await self.xmpp(self.bob)
        self.state(ann, f"{self.bob}@localhost", "composing")
        await bob.next("chatstate")
        count = 250  # more than in two minutes, should one end meanwhile
        for number in range(count):
            message = ann.client.make_message(f"{self.bob}@localhost", mtype="chat")
            message["id"] = f"move-{number}"
            message["chat_state"] = "active"
            message.send()
        refused, arrived = [], 0
        waits = {"error": None, "state": None}
        while arrived + len(refused) < count:
            waits["error"] = waits["error"] or asyncio.ensure_future(ann.next("message_error"))
            waits["state"] = waits["state"] or asyncio.ensure_future(bob.next("chatstate"))
            await asyncio.wait(waits.values(), return_when=asyncio.FIRST_COMPLETED)
            if waits["error"].done():
                error, waits["error"] = waits["error"].result(), None
                self.assertEqual(error["error"]["condition"], "resource-constraint")
                refused.append(error["id"])
            if waits["state"] and waits["state"].done():
                arrived, waits["state"] = arrived + 1, None
        for wait in waits.values():
            if wait:
                wait.cancel()
        self.assertEqual(len(set(refused)), len(refused))
        self.assertGreaterEqual(len(refused), count - 240, "120 in a minute arrive")

    def test_too_much_of_it_is_dropped_and_nobody_is_harmed(self):
        ann, bob = self.device(self.ann), self.device(self.bob)
        dropped = self.server.count("chat_transients_dropped_total")
        for to in ("", "no such name", "nobody.at.all"):
            ann.ask(transient={"to": to, "state": 1})
        ann.ask(transient={"to": self.bob})
        for _ in range(200):
            ann.ask(transient={"to": self.bob, "state": 1})
        self.assertEqual(ann.send(self.bob, "still here").seq, 1)
        heard = 0
        while True:
            kind, _ = bob.frame()
            if kind == "message":
                break
            heard += kind == "transient"
        self.assertEqual(heard, 119, "of 120 in a minute one was for nobody")
        poll(lambda: self.server.count("chat_transients_dropped_total") == dropped + 85,
             "the others are counted")


class Amendments(Words):
    def sent(self, device, to, kind, text, about):
        extra = f"{about.seq} {about.id}".encode()
        return device.send(to, text, kind=kind, extra=extra)

    @together
    async def test_an_edit_is_a_correction_and_a_correction_is_an_edit(self):
        ann, bob = await self.xmpp(self.ann, "0308"), self.device(self.bob)
        first = bob.send(self.ann, "by IM")
        heard = await ann.next()
        self.assertEqual(self.sent(bob, self.ann, 6, "by IM, too", first).seq, 2)
        corrected = await ann.next()
        self.assertEqual((corrected["body"], corrected["replace"]["id"]),
                         ("by IM, too", heard["id"]))
        message = ann.client.make_message(f"{self.bob}@localhost", "by XMPP", mtype="chat")
        message["id"] = "an id of her own"
        message.send()
        await ann.ping()
        bob.next("message")
        again = ann.client.make_message(f"{self.bob}@localhost", "by XMPP & co", mtype="chat")
        again["replace"]["id"] = "an id of her own"
        again.send()
        await ann.ping()
        told = bob.next("message").message
        self.assertEqual((told.content.kind, told.content.text), (6, "by XMPP & co"))
        texts = [it.content.text for it in bob.history(self.ann).messages]
        self.assertEqual(texts, ["by IM, too", "by IM, too", "by XMPP & co", "by XMPP & co"])
        edited = bob.history(self.ann, count=1).messages[0]
        self.assertGreater(edited.edited_ms, edited.at_ms)
        wrong = ann.client.make_message(f"{self.bob}@localhost", "mine", mtype="chat")
        wrong["replace"]["id"] = heard["id"]
        wrong.send()
        await ann.ping()
        error = await ann.next("message_error")
        self.assertEqual(error["error"]["condition"], "item-not-found", "it is bob's")

    @together
    async def test_reactions_of_both_are_seen_by_both(self):
        ann, bob = await self.xmpp(self.ann, "0444"), self.device(self.bob)
        first = bob.send(self.ann, "shall we?")
        heard = await ann.next()
        ann.client.plugin["xep_0444"].send_reactions(heard["from"], heard["id"], ["👍", "🎉"])
        await ann.ping()
        told = bob.next("message").message
        self.assertEqual((told.content.kind, told.content.text), (7, "👍 🎉"))
        self.assertEqual(self.sent(bob, self.ann, 7, "❤️", first).seq, 3)
        reacted = await ann.next("reactions")
        self.assertEqual((reacted["reactions"]["id"], reacted["reactions"].get_values()),
                         (heard["id"], {"❤️"}))
        reactions = {it.by: it.emoji for it in bob.history(self.ann, count=1).messages[0].reactions}
        self.assertEqual(reactions, {f"{self.ann}@localhost": "👍 🎉",
                                     f"{self.bob}@localhost": "❤️"})
        ann.client.plugin["xep_0444"].send_reactions(heard["from"], heard["id"], [])
        await ann.ping()
        self.assertEqual(bob.next("message").message.content.text, "", "taken back")

    @together
    async def test_a_recall_is_a_retraction_and_a_retraction_is_a_recall(self):
        ann, bob = await self.xmpp(self.ann, "0424"), self.device(self.bob)
        bob.send(self.ann, "a secret of bob")
        heard = await ann.next()
        self.assertEqual(bob.recall(self.ann, 1).seq, 2)
        gone = await ann.next()
        retract = gone.xml.find("{urn:xmpp:message-retract:1}retract")
        self.assertEqual(retract.get("id"), heard["id"])
        identity = ann.say(f"{self.bob}@localhost", "a secret of ann")
        await ann.ping()
        bob.next("message")
        bob.next("message")
        message = ann.client.make_message(f"{self.bob}@localhost", mtype="chat")
        message["retract"]["id"] = identity
        message.send()
        await ann.ping()
        told = bob.next("message").message
        self.assertEqual((told.content.kind, told.content.extra.split()[0]), (4, b"3"))
        texts = [it.content.text for it in bob.history(self.ann).messages]
        self.assertFalse([text for text in texts if "secret" in text], texts)

    @together
    async def test_a_chat_marker_is_read_by_im_and_stored_nowhere(self):
        ann, bob = await self.xmpp(self.ann, "0333"), self.device(self.bob)
        bob.send(self.ann, "one")
        heard = await ann.next()
        ann.client.plugin["xep_0333"].send_marker(heard["from"], heard["id"], "displayed")
        await ann.ping()
        event = bob.next("event")
        self.assertEqual((event.peer_read, getattr(event, "with")),
                         (1, f"{self.ann}@localhost"))
        self.assertEqual(len(bob.history(self.ann).messages), 1)

    @together
    async def test_what_one_protocol_reads_is_read_for_the_other(self):
        ann, phone, bob = await self.xmpp(self.ann), self.device(self.ann), self.device(self.bob)
        bob.send(self.ann, "one")
        bob.send(self.ann, "two")
        stanza_id = "{urn:xmpp:sid:0}stanza-id"
        ids = [(await ann.next()).xml.find(stanza_id).get("id") for _ in range(2)]
        chat = f"{self.bob}@localhost"

        async def displayed(kind, inner):
            iq = ann.client.make_iq(itype=kind)
            pubsub = f"<pubsub xmlns='http://jabber.org/protocol/pubsub'>{inner}</pubsub>"
            iq.append(slixmpp().xmlstream.ET.fromstring(pubsub))
            return (await iq.send(timeout=DEADLINE_S)).xml
        await displayed("set", f"<publish node='{DISPLAYED}'><item id='{chat}'><displayed "
                               f"xmlns='{DISPLAYED}'><stanza-id xmlns='urn:xmpp:sid:0' "
                               f"id='{ids[0]}' by='{self.ann}@localhost'/></displayed></item>"
                               "</publish>")
        event = phone.next("event")
        self.assertEqual((event.read, getattr(event, "with")), (1, chat))
        self.assertEqual(phone.asks("mark_read", "marked_read", with_=chat, upto=2).upto, 2)
        for _ in range(int(DEADLINE_S * 10)):
            items = await displayed("get", f"<items node='{DISPLAYED}'/>")
            if items.find(f".//{stanza_id}").get("id") == ids[1]:
                break
            await asyncio.sleep(0.1)
        else:
            self.fail("her clients of XMPP are not told")

    @together
    async def test_a_room_that_is_muted_or_pinned_by_one_protocol_is_so_for_the_other(self):
        group = self.makes(self.device(self.bob), self.ann)
        ann = await self.xmpp(self.ann, "0163", "0402", "0469", "0492")
        from slixmpp.plugins.xep_0402.stanza import Conference
        pep, bookmarks = ann.client.plugin["xep_0163"], "urn:xmpp:bookmarks:1"

        def im(*words):
            return asyncio.to_thread(self.im, *words)

        async def bookmark():
            found = await ann.client.plugin["xep_0060"].get_item(
                ann.client.boundjid.bare, bookmarks, group, timeout=DEADLINE_S)
            return found["pubsub"]["items"]["item"]["conference"]

        async def becomes(mute, pinned):
            """Her bookmark says so, sooner or later, and has what she had put in."""
            for _ in range(int(DEADLINE_S * 10)):
                extensions = (found := await bookmark())["extensions"]
                is_pinned = extensions.xml.find("{urn:xmpp:bookmarks-pinning:0}pinned") is not None
                said = [extensions["notify"].get_config()] + [
                    it.tag.split("}")[1]
                    for it in extensions.xml.iterfind("{urn:xmpp:notification-settings:1}notify/*")]
                if (said, is_pinned) == ([mute, mute], pinned):
                    return self.assertEqual((found["name"], found["nick"]), ("Lunch", "Ann"))
                await asyncio.sleep(0.1)
            self.fail(f"her bookmark is {found}")

        async def listed():
            rows = await im("conversations", self.ann, "--json")
            row, = (it for it in map(json.loads, rows.splitlines()) if it["with"] == group)
            return row["muted"], row["pinned"]

        conference = Conference()
        conference["name"], conference["nick"] = "Lunch", "Ann"
        conference["extensions"]["notify"].configure("never")
        await pep.publish(conference, node=bookmarks, id=group, timeout=DEADLINE_S)
        await becomes("never", False)
        self.assertEqual(await listed(), (True, False))
        await im("keep", self.ann, group, "--pinned", "true")
        await becomes("never", True)
        await im("keep", self.ann, group, "--muted", "false")
        await becomes("always", True)
        await im("keep", self.ann, group, "--muted", "true")
        await becomes("on-mention", True)
        conference = await bookmark()
        del conference["extensions"]["pinned"]
        await pep.publish(conference, node=bookmarks, id=group, timeout=DEADLINE_S)
        for _ in range(int(DEADLINE_S * 10)):
            if await listed() == (True, False):
                break
            await asyncio.sleep(0.1)
        else:
            self.fail("she has unpinned it")

    def test_bad_amendments_fail_and_harm_nobody(self):
        ann, bob = self.device(self.ann), self.device(self.bob)
        first = bob.send(self.ann, "one")
        faults = {"invalid": 4, "forbidden": 9, "unknown_message": 13}
        nowhere = type(first)(seq=7, id=first.id)
        other = type(first)(seq=1, id=7)
        for device, to, kind, text, about, fault in (
                (ann, self.bob, 6, "mine", first, "forbidden"),
                (bob, self.ann, 6, "", first, "invalid"),
                (bob, self.ann, 6, "x", nowhere, "unknown_message"),
                (bob, self.ann, 6, "x", other, "unknown_message"),
                (ann, self.bob, 7, "1 2 3 4 5 6 7", first, "invalid"),
                (ann, self.bob, 7, "lol", first, "invalid"),
                (ann, self.bob, 7, "👍", nowhere, "unknown_message")):
            answer = self.sent(device, to, kind, text, about)
            self.assertEqual((answer.fault, answer.word), (faults[fault], fault))
        answer = bob.send(self.ann, "x", kind=6, extra=b"one two")
        self.assertEqual(answer.word, "invalid")
        messages = ann.history(self.bob).messages
        self.assertEqual([(it.content.text, it.edited_ms) for it in messages], [("one", 0)])


class Others(Words):
    """What a message says of others: which one it quotes, and whom it mentions."""

    @staticmethod
    def quotes(device, to, text, about):
        return device.send(to, text, quote={"seq": about.seq, "id": about.id})

    @together
    async def test_a_quote_is_a_reply_with_its_fallback_and_a_reply_is_a_quote(self):
        ann, bob = await self.xmpp(self.ann, "0461"), self.device(self.bob)
        first = bob.send(self.ann, "shall we\nmeet?")
        heard = await ann.next()
        self.assertEqual(self.quotes(bob, self.ann, "at noon", first).seq, 2)
        told = await ann.next()
        reply = told.xml.find("{urn:xmpp:reply:0}reply")
        self.assertEqual((reply.get("id"), reply.get("to")),
                         (heard["id"], f"{self.bob}@localhost"))
        self.assertEqual(told["body"], "> shall we\n> meet?\nat noon")
        part = told.xml.find("{urn:xmpp:fallback:0}fallback/{urn:xmpp:fallback:0}body")
        self.assertEqual(told["body"][int(part.get("end")):], "at noon")
        message = ann.client.make_message(f"{self.bob}@localhost", "> shall we\nyes", mtype="chat")
        message["reply"]["id"] = heard["id"]
        message["reply"]["to"] = heard["from"].bare
        message["fallback"]["for"] = "urn:xmpp:reply:0"
        message["fallback"]["body"]["start"] = 0
        message["fallback"]["body"]["end"] = 11
        message.send()
        await ann.ping()
        said = bob.next("message").message
        quote = said.content.quote
        self.assertEqual(said.content.text, "yes")
        self.assertEqual((quote.seq, quote.id, getattr(quote, "from"), quote.text),
                         (1, first.id, f"{self.bob}@localhost", "shall we\nmeet?"))
        kept = bob.history(self.ann, count=1, start=2).messages[0].content.quote
        self.assertEqual((kept.id, kept.text), (first.id, ""), "its text stands nowhere else")

    @together
    async def test_a_reply_to_what_nobody_knows_is_said_all_the_same(self):
        ann, bob = await self.xmpp(self.ann, "0461"), self.device(self.bob)
        message = ann.client.make_message(f"{self.bob}@localhost", "> what?\nyes", mtype="chat")
        message["reply"]["id"] = "an id of nobody"
        message.send()
        await ann.ping()
        said = bob.next("message").message
        self.assertEqual((said.content.text, said.content.HasField("quote")),
                         ("> what?\nyes", False))
        self.assertIn(b"an id of nobody", said.content.extra)

    def test_quotes_that_name_nothing_fail_and_a_quote_has_nothing_of_a_recall(self):
        ann, bob = self.device(self.ann), self.device(self.bob)
        first = bob.send(self.ann, "a secret")
        for seq, number, word in ((9, first.id, "unknown_message"), (1, 7, "unknown_message"),
                                  (0, first.id, "invalid")):
            answer = self.quotes(ann, self.bob, "that", type(first)(seq=seq, id=number))
            self.assertEqual(answer.word, word)
        self.assertEqual(bob.recall(self.ann, 1).seq, 2)
        self.assertEqual(self.quotes(ann, self.bob, "that", first).seq, 3)
        self.server.kill()
        self.server.start()
        texts = [it.content.text for it in self.device(self.bob).history(self.ann).messages]
        self.assertEqual(texts, ["", "", "that"])

    @together
    async def test_mentions_in_a_room_are_counted_apart_and_cross_over(self):
        bob = self.device(self.bob)
        group = self.makes(bob, self.ann)
        ann = await self.xmpp(self.ann, "0045", "0372")
        await ann.client.plugin["xep_0045"].join_muc_wait(group, self.ann, timeout=20)
        bob.send(group, "ann: look", mentions=[self.ann])
        heard = await ann.next()
        while heard["body"] != "ann: look":
            heard = await ann.next()
        reference = heard.xml.find("{urn:xmpp:reference:0}reference")
        self.assertEqual((reference.get("type"), reference.get("uri")),
                         ("mention", f"xmpp:{self.ann}@localhost"))
        phone = self.device(self.ann, "tablet")
        self.assertEqual(self.known(phone, group), (1, 1))
        everybody = ann.client.make_message(group, "all: here", mtype="groupchat")
        everybody["reference"]["type"] = "mention"
        everybody["reference"]["uri"] = f"xmpp:{group}"
        everybody.send()
        await ann.ping()
        told = bob.next("message").message
        while told.content.text != "all: here":
            told = bob.next("message").message
        self.assertTrue(told.content.mentions_everybody)
        named = ann.client.make_message(group, "bob: you", mtype="groupchat")
        named["reference"]["type"] = "mention"
        named["reference"]["uri"] = f"xmpp:{group}/{self.bob}"
        named.send()
        await ann.ping()
        told = bob.next("message").message
        self.assertEqual(list(told.content.mentions), [f"{self.bob}@localhost"])
        self.assertEqual(self.known(bob, group)[1], 2)

    def known(self, device, peer):
        found = device.asks("conversations", "conversations", with_=peer, count=1).conversations[0]
        return found.unread, found.mentions


class Search(Words):
    def test_what_was_said_is_found_by_the_command_line_and_outlives_a_kill(self):
        ann, bob = self.device(self.ann), self.device(self.bob)
        for text in ("Lunch at NOON", "今天下午三点开会", "nothing"):
            ann.send(self.bob, text)
        bob.pull_until(3)
        self.assertIn("今天下午三点开会", self.im("search", self.bob, "下午"))
        found = self.im("search", self.bob, "lunch", "--from", self.ann, "--with", self.ann)
        self.assertEqual(found.count("\n"), 1, found)
        self.im("edit", self.ann, self.bob, "1", "Dinner at nine")
        self.im("react", self.bob, self.ann, "1", "👍")
        self.server.kill()
        self.server.start()
        self.assertEqual(self.im("search", self.bob, "lunch"), "")
        self.assertIn("Dinner at nine (edited)", self.im("search", self.bob, "DINNER"))
        self.assertIn("👍", self.im("history", self.bob, self.ann))


if __name__ == "__main__":
    unittest.main()
