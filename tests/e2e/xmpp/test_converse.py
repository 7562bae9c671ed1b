"""XMPP in a browser as converse.js speaks it: people, presence, archive, rooms, a cut."""

import asyncio
import json
import os
import unittest

from fixture import Server
from im.page import Chromium
from xmpp.people import BUILT, People, own_name, together
from xmpp.site import site

FOLDER = os.path.dirname(os.path.abspath(__file__))
CONVERSE = os.path.join(BUILT, "xmpp-js", "node_modules", "converse.js", "dist", "")


class Converse(People):
    SHARED = False

    @classmethod
    def setUpClass(cls):
        if not Chromium.path() or not os.path.isdir(CONVERSE):
            raise unittest.SkipTest("Chromium or converse.js is not installed: "
                                    "NO BROWSER WAS TRIED")
        cls.origin = site(cls, {"/": os.path.join(FOLDER, "converse_page.html"),
                                "/converse/": CONVERSE})
        cls.server = Server({
            "listen.any": {"websocket": True, "websocket_origins": [cls.origin]},
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}})
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        super().setUp()
        self.chromium = Chromium()
        self.addCleanup(self.chromium.close)
        self.page = self.chromium.page()

    def come(self):
        """Ann opens the site."""
        self.page.open(f"{self.origin}/")
        url = f"ws://127.0.0.1:{self.server.ports['any'][1]}/xmpp-websocket"
        word = json.dumps([url, f"{self.ann}@localhost", f"secret of {self.ann}"])
        self.page.until("window.come", "the library is loaded")
        self.page.run(f"come(...{word}); true")
        self.page.until("window.app?.api.connection.connected() && app.roster", "Ann is there")

    def opens(self, what, jid):
        self.page.run(f"app.api.{what}.open({json.dumps(jid)}, {{}}, true).then(() => true)")
        self.page.until("document.querySelector('.chat-textarea')", "one can type there")

    def types(self, text):
        self.page.type(".chat-textarea", text)
        self.page.key("Enter", ".chat-textarea")

    async def sees(self, condition, what):
        """Waits until the page is so; others go on meanwhile."""
        await asyncio.to_thread(self.page.until, condition, what)

    @together
    async def test_two_people_see_each_other_talk_and_find_it_again(self):
        bob = await self.person(self.bob).start()
        bob_s, ann_s = f"{self.bob}@localhost", f"{self.ann}@localhost"
        self.come()
        bob.client.send_presence(pto=ann_s, ptype="subscribe")
        await bob.ping()
        await self.sees(f"contact({json.dumps(bob_s)})?.get('requesting')", "Bob asks for her")
        self.page.run(f"contact({json.dumps(bob_s)}).authorize(); "
                      f"app.api.contacts.add({{ jid: {json.dumps(bob_s)} }}).then(() => true)")
        bob.client.auto_authorize = True
        await self.sees(f"contact({json.dumps(bob_s)})?.get('subscription') === 'both'",
                        "they see each other")
        await self.sees(f"contact({json.dumps(bob_s)}).getStatus() === 'online'", "Bob is there")
        bob.client.send_presence(pshow="away")
        await bob.ping()
        await self.sees(f"contact({json.dumps(bob_s)}).getStatus() === 'away'", "Bob is away")

        self.opens("chats", bob_s)
        self.types("hello <&> 世界")
        self.assertEqual((await bob.next())["body"], "hello <&> 世界")
        bob.say(ann_s, "have you *seen* it?")
        await bob.ping()
        await self.sees("texts().length === 2", "Bob's answer stands there")
        self.assertEqual(self.page.run("texts()[0]"), "hello <&> 世界")
        # It is found again: what was said while nobody was there, and before, by the archive.
        self.page.run("app.api.user.logout().then(() => true)")
        bob.say(ann_s, "you are gone")
        await bob.ping()
        self.page.run("sessionStorage.clear(); localStorage.clear(); true")
        self.come()
        self.opens("chats", bob_s)
        await self.sees("texts().length === 3", "all three stand there")
        self.assertEqual(self.page.run("[texts()[0], texts()[2]]"),
                         ["hello <&> 世界", "you are gone"])

    @together
    async def test_people_of_a_browser_and_of_a_terminal_talk_in_a_room(self):
        room = f"{own_name(self, 'room')}@conference.localhost"
        self.come()
        self.opens("rooms", room)
        await self.sees("app.chatboxes.filter(it => it.get('type') === 'chatroom')"
                        ".some(it => it.session.get('connection_status') === 5)", "Ann is in it")
        bob = await self.person(self.bob, plugins=("0045",)).start()
        # Rooms are for members until their owner says otherwise.
        self.types(f"/member {self.bob}@localhost")
        await self.sees("app.chatboxes.find(it => it.get('type') === 'chatroom').occupants.models"
                        f".some(it => it.get('jid') === {json.dumps(self.bob + '@localhost')})",
                        "Bob is a member")
        bob.hear("groupchat_message")
        await bob.client.plugin["xep_0045"].join_muc_wait(room, "bob", maxstanzas=0)
        self.types("first")
        self.assertEqual((await bob.next("groupchat_message"))["body"], "first")
        bob.client.send_message(room, "second", mtype="groupchat")
        await self.sees("texts().includes('second')", "it is heard")
        self.assertEqual(self.page.run("texts().filter(it => it === 'first').length"), 1)

    @together
    async def test_a_cut_is_survived_and_nothing_said_meanwhile_is_lost(self):
        bob = await self.person(self.bob).start()
        self.come()
        self.opens("chats", f"{self.bob}@localhost")
        self.types("before")
        self.assertEqual((await bob.next())["body"], "before")
        self.page.run("app.api.connection.get()._proto.socket.close(); true")
        for number in range(3):
            bob.say(f"{self.ann}@localhost", f"meanwhile {number}")
        await bob.ping()
        await self.sees("texts().length === 4", "all of it stands there")
        self.assertEqual(self.page.run("texts()"),
                         ["before", "meanwhile 0", "meanwhile 1", "meanwhile 2"])
        await self.sees("window.returns === 1", "it has come back")
        self.types("after")
        self.assertEqual((await bob.next())["body"], "after")
        await self.sees("texts().length === 5", "it stands there, too")


if __name__ == "__main__":
    unittest.main()
