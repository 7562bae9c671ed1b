"""What accounts publish of themselves and keep with the server, with slixmpp: avatars, vCards,
bookmarks and private storage, over a kill of the server."""

import asyncio
import base64
import hashlib

from xmpp import people
from xmpp.people import DEADLINE_S, together
from xmpp.test_people import Friends

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg"
    "==")
OTHER = PIXEL + b"another"
PUBSUB = "http://jabber.org/protocol/pubsub"
BOOKMARKS = "urn:xmpp:bookmarks:1"
METADATA = "urn:xmpp:avatar:metadata"


def digest(data):
    return hashlib.sha1(data).hexdigest()


class Publishing(Friends):
    """Friends who are told what is published."""

    def friend(self, name, resource=""):
        friend = super().friend(name, resource)
        client = friend.client
        for plugin in ("0004", "0060", "0115", "0163", "0084", "0054", "0049", "0402"):
            client.register_plugin(f"xep_{plugin}")
        friend.queues["news"] = asyncio.Queue()
        client.add_event_handler("avatar_metadata_publish", friend.queues["news"].put_nowait)
        return friend

    async def ask(self, friend, xml, kind="get", to=None):
        """The answer to a question; an error is raised."""
        iq = friend.client.make_iq(itype=kind, ito=to)
        iq.append(people.slixmpp().xmlstream.ET.fromstring(xml))
        return await asyncio.wait_for(iq.send(), DEADLINE_S)

    async def refused(self, friend, xml, kind="get", to=None):
        """The condition of the error to a question, and what more it says."""
        from slixmpp.exceptions import IqError
        with self.assertRaises(IqError) as raised:
            await self.ask(friend, xml, kind, to)
        error = raised.exception.iq.xml.find("{jabber:client}error")
        names = [child.tag.split("}")[1] for child in error]
        return names[0], *names[1:]

    async def publish_avatar(self, friend, data):
        avatar = friend.client.plugin["xep_0084"]
        await avatar.publish_avatar(data, timeout=DEADLINE_S)
        info = {"id": digest(data), "type": "image/png", "bytes": len(data)}
        await avatar.publish_avatar_metadata([info], timeout=DEADLINE_S)

    async def is_told(self, friend, jid, data):
        """Somebody's avatar is told, and it is this one when it is fetched."""
        while True:
            news = await friend.next("news")
            item = news["pubsub_event"]["items"]["item"]
            if news["from"].bare == jid and item["id"] == digest(data):
                break
        info = item.xml.find(f".//{{{METADATA}}}info")
        self.assertEqual(info.get("type"), "image/png")
        await self.is_fetched(friend, jid, data)

    async def is_fetched(self, friend, jid, data):
        found = await friend.client.plugin["xep_0084"].retrieve_avatar(
            jid, digest(data), timeout=DEADLINE_S)
        self.assertEqual(found["pubsub"]["items"]["item"]["avatar_data"]["value"], data)

    async def vcard(self, friend, jid=None):
        vcard = await self.ask(friend, "<vCard xmlns='vcard-temp'/>", to=jid)
        return vcard.xml.find("{vcard-temp}vCard")

    async def come_back(self, *friends):
        self.server.kill()
        for friend in friends:
            await friend.next("disconnected")
            friend.client.abort()
        self.server.start()
        return [await self.friend(friend.client.boundjid.user).here() for friend in friends]


class Avatars(Publishing):
    @together
    async def test_one_sets_it_and_the_other_is_told_and_fetches_it_over_a_kill_too(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        hers, his = await self.befriend(ann, bob)
        await self.publish_avatar(ann, PIXEL)
        await self.is_told(bob, hers, PIXEL)
        shown = await self.shows(bob, hers)
        self.assertEqual(shown, digest(PIXEL))
        ann, bob = await self.come_back(ann, bob)
        await self.is_told(bob, hers, PIXEL)
        await self.is_told(ann, hers, PIXEL)
        photo = (await self.vcard(bob, hers)).find("{vcard-temp}PHOTO/{vcard-temp}BINVAL")
        self.assertEqual(base64.b64decode(photo.text), PIXEL)
        self.assertEqual(await self.shows(bob, hers), digest(PIXEL))

    async def shows(self, friend, jid):
        """What somebody's presence says of its avatar, once it says so."""
        while True:
            presence = await friend.until("presence_available", jid)
            photo = presence.xml.find("{vcard-temp:x:update}x/{vcard-temp:x:update}photo")
            if photo is not None and photo.text:
                return photo.text

    @together
    async def test_a_photo_of_a_vcard_is_the_avatar_and_goes_with_it(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        hers, _ = await self.befriend(ann, bob)
        photo = base64.b64encode(OTHER).decode()
        card = "<vCard xmlns='vcard-temp'><FN>Ann &amp; Co</FN>{}</vCard>"
        whole = card.format(f"<PHOTO><TYPE>image/png</TYPE><BINVAL>{photo}</BINVAL></PHOTO>")
        await self.ask(ann, whole, "set")
        await self.is_told(bob, hers, OTHER)
        found = await self.vcard(bob, hers)
        self.assertEqual(found.find("{vcard-temp}FN").text, "Ann & Co")
        self.assertEqual(found.find("{vcard-temp}PHOTO/{vcard-temp}BINVAL").text, photo)
        await self.ask(ann, card.format(""), "set")
        found = await self.vcard(bob, hers)
        self.assertIsNone(found.find("{vcard-temp}PHOTO"))
        self.assertEqual(found.find("{vcard-temp}FN").text, "Ann & Co")

    @together
    async def test_a_stranger_gets_the_vcard_but_nothing_that_is_for_friends(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        hers = ann.client.boundjid.bare
        await self.publish_avatar(ann, PIXEL)
        self.assertEqual(await self.refused(bob, "<vCard xmlns='vcard-temp'/>", to=hers),
                         ("item-not-found",))
        items = f"<pubsub xmlns='{PUBSUB}'><items node='{METADATA}'/></pubsub>"
        self.assertEqual(await self.refused(bob, items, to=hers),
                         ("not-authorized", "presence-subscription-required"))
        await self.ask(ann, "<vCard xmlns='vcard-temp'><FN>Ann</FN></vCard>", "set")
        self.assertEqual((await self.vcard(bob, hers)).find("{vcard-temp}FN").text, "Ann")
        nobody = "nobody.there@localhost"
        self.assertEqual(await self.refused(bob, items, to=nobody), ("item-not-found",))
        await ann.client.plugin["xep_0191"].block(bob.client.boundjid.bare)
        self.assertEqual(await self.refused(bob, "<vCard xmlns='vcard-temp'/>", to=hers),
                         ("item-not-found",))


class Keeping(Publishing):
    @together
    async def test_bookmarks_of_one_client_are_those_of_another(self):
        desk = await self.friend(self.ann, "desk").here()
        phone = await self.friend(self.ann, "phone").here()
        old = ("<query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'>{}</storage>"
               "</query>")
        room = ("<conference name='Tea' autojoin='1' jid='tea@rooms.localhost'><nick>Ann</nick>"
                "</conference><url name='x' url='http://localhost/'/>")
        await self.ask(desk, old.format(room), "set")
        items = f"<pubsub xmlns='{PUBSUB}'><items node='{BOOKMARKS}'/></pubsub>"
        found = await self.ask(phone, items)
        item = found["pubsub"]["items"]["item"]
        self.assertEqual(item["id"], "tea@rooms.localhost")
        conference = item["conference"]
        self.assertEqual((conference["name"], conference["autojoin"], conference["nick"]),
                         ("Tea", True, "Ann"))
        new = (f"<pubsub xmlns='{PUBSUB}'><publish node='{BOOKMARKS}'><item id='{{0}}'><conference "
               f"xmlns='{BOOKMARKS}' name='{{1}}'><extensions><e xmlns='urn:e'/></extensions>"
               "</conference></item></publish><publish-options><x xmlns='jabber:x:data' "
               "type='submit'><field var='FORM_TYPE' type='hidden'><value>"
               f"{PUBSUB}#publish-options</value></field><field var='pubsub#persist_items'>"
               "<value>true</value></field><field var='pubsub#max_items'><value>max</value>"
               "</field><field var='pubsub#access_model'><value>whitelist</value></field>"
               "<field var='pubsub#send_last_published_item'><value>never</value></field></x>"
               "</publish-options></pubsub>")
        await self.ask(phone, new.format("pub@rooms.localhost", "Pub"), "set")
        desk, phone = await self.come_back(desk, phone)
        rooms = await self.rooms(desk, old)
        self.assertEqual(rooms, {"tea@rooms.localhost": "Tea", "pub@rooms.localhost": "Pub"})
        stay = "<conference name='Pub' jid='pub@rooms.localhost'/>"
        await self.ask(desk, old.format(stay), "set")
        found = await self.ask(phone, items)
        whole = [item["id"] for item in found["pubsub"]["items"]]
        self.assertEqual(whole, ["pub@rooms.localhost"])
        self.assertIsNotNone(found.xml.find(".//{urn:e}e"), "what only the new form has stays")

    async def rooms(self, friend, old):
        found = await self.ask(friend, old.format(""))
        rooms = found.xml.iter("{storage:bookmarks}conference")
        self.assertIsNotNone(found.xml.find(".//{storage:bookmarks}url"))
        return {room.get("jid"): room.get("name") for room in rooms}

    @together
    async def test_private_storage_is_ones_own_and_outlives_the_server(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        query = "<query xmlns='jabber:iq:private'><notes xmlns='urn:n'>{}</notes></query>"
        await self.ask(ann, query.format("<n>tea &amp; cake</n>"), "set")
        ann, bob = await self.come_back(ann, bob)
        found = await self.ask(ann, query.format(""))
        self.assertEqual(found.xml.find(".//{urn:n}n").text, "tea & cake")
        none = await self.ask(bob, query.format(""))
        self.assertEqual(list(none.xml.find(".//{urn:n}notes")), [])
        self.assertEqual(await self.refused(bob, query.format(""), to=ann.client.boundjid.bare),
                         ("forbidden",))


class Refusals(Publishing):
    @together
    async def test_each_bad_request_is_told_what_is_wrong(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        hers, _ = await self.befriend(ann, bob)
        pubsub = f"<pubsub xmlns='{PUBSUB}'>{{}}</pubsub>"
        owner = f"<pubsub xmlns='{PUBSUB}#owner'>{{}}</pubsub>"
        item = "<item id='1'><x xmlns='urn:x'>{}</x></item>"
        publish = "<publish node='n'>{}</publish>"
        form = ("<publish-options><x xmlns='jabber:x:data' type='{}'><field var='pubsub#{}'><value>"
                "{}</value></field></x></publish-options>")

        async def says(inner, kind="set", wrapper=pubsub, friend=ann, to=None):
            return await self.refused(friend, wrapper.format(inner), kind, to)

        large = publish.format(item.format("x" * 140_000))
        self.assertEqual(await says(large), ("not-acceptable", "payload-too-big"))
        self.assertEqual(await says("<items node='none'/>", "get"), ("item-not-found",))
        self.assertEqual(await says("<publish node='n'/>"), ("bad-request",))
        two = publish.format("<item><x xmlns='urn:x'/><x xmlns='urn:x'/></item>")
        self.assertEqual(await says(two), ("bad-request",))
        self.assertEqual(await says(publish.format("<item><x/></item>")), ("bad-request",))
        small = publish.format(item.format("x"))
        await self.ask(ann, pubsub.format(small), "set")
        for options, answer in (
                (form.format("submit", "access_model", "open"),
                 ("conflict", "precondition-not-met")),
                (form.format("submit", "access_model", "authorize"),
                 ("conflict", "precondition-not-met")),
                (form.format("submit", "max_items", "several"), ("bad-request",)),
                (form.format("form", "max_items", "1"), ("bad-request",))):
            self.assertEqual(await says(small + options), answer)
        self.assertEqual(await says(small, friend=bob, to=hers), ("forbidden",))
        self.assertEqual(await says("<delete node='n'/>", wrapper=owner, friend=bob, to=hers),
                         ("forbidden",))
        self.assertEqual(await says("<create node='n'/>"), ("conflict",))
        self.assertEqual(await says("<retract node='n'><item id='2'/></retract>"),
                         ("item-not-found",))
        self.assertEqual(await says("<delete node='none'/>", wrapper=owner), ("item-not-found",))
        self.assertEqual(await says(f"<subscribe node='n' jid='{hers}'/>", friend=bob, to=hers),
                         ("bad-request",))
        info = await self.ask(bob, "<query xmlns='http://jabber.org/protocol/disco#info'/>",
                              to=hers)
        kinds = {(one.get("category"), one.get("type")) for one in info.xml.iter(
            "{http://jabber.org/protocol/disco#info}identity")}
        self.assertIn(("pubsub", "pep"), kinds)
        await self.ask(ann, owner.format("<delete node='n'/>"), "set")
        self.assertEqual(await says("<items node='n'/>", "get"), ("item-not-found",))
