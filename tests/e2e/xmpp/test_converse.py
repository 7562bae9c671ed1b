"""Converse.js, a client for browsers, in headless Chromium over a WebSocket; the other is slixmpp.
"""

import functools
import http.server
import json
import os
import threading
import unittest
from urllib.parse import urlencode

from fixture import Server
from im.page import Chromium
from xmpp.people import BUILT, own_name, together
from xmpp.test_people import Friend, Friends

HERE = os.path.dirname(os.path.abspath(__file__))
CONVERSE = os.path.join(BUILT, "xmpp-js", "node_modules", "converse.js")
TEXTS = ("[...document.querySelectorAll('.chat-msg__text')].map(it => it.textContent.trim())"
         ".filter(it => it)")


class Files(http.server.SimpleHTTPRequestHandler):
    """The page of these tests, and what the library's package has."""

    def translate_path(self, path):
        if path.split("?")[0] == "/":
            return os.path.join(HERE, "converse.html")
        return super().translate_path(path)

    def log_message(self, *_):
        pass


class Converse(Friends):
    SHARED = False

    @classmethod
    def setUpClass(cls):
        if not os.path.isdir(CONVERSE):
            raise unittest.SkipTest("converse.js is not installed: IT WAS NOT TRIED")
        if not Chromium.path():
            raise unittest.SkipTest("Chromium could not be installed: NO PAGE WAS TRIED")
        files = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Files, directory=CONVERSE))
        threading.Thread(target=files.serve_forever, daemon=True).start()
        cls.addClassCleanup(files.server_close)
        cls.addClassCleanup(files.shutdown)
        cls.site = f"http://127.0.0.1:{files.server_address[1]}"
        cls.server = Server({
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
            "listen.web": {"address": "127.0.0.1:0", "protocol": "xmpp",
                           "websocket": "/xmpp-websocket", "websocket_origins": [cls.site]}})
        cls.addClassCleanup(cls.server.close)
        cls.chromium = Chromium()
        cls.addClassCleanup(cls.chromium.close)

    def open(self, name):
        """A page in which somebody has logged in."""
        page = self.chromium.page()
        port = self.server.ports["web"][1]
        asked = {"jid": f"{name}@localhost", "password": f"secret of {name}",
                 "url": f"ws://127.0.0.1:{port}/xmpp-websocket"}
        page.open(f"{self.site}/?{urlencode(asked)}")
        page.until("window.isConnected && window.hasRoster", f"{name} is in")
        return page

    def chat(self, page, other):
        """A conversation is open."""
        page.run(f"_converse.api.chats.open({json.dumps(other)}, {{}}, true).then(() => 1)")
        page.until("document.querySelector('.chatbox textarea.chat-textarea')", "it is open")

    def say(self, page, text):
        page.type(".chatbox textarea.chat-textarea", text)
        page.key("Enter", ".chatbox textarea.chat-textarea")

    def shows(self, page, *texts):
        wanted = json.dumps(json.dumps(texts, separators=(",", ":"), ensure_ascii=False))
        page.until(f"JSON.stringify({TEXTS}) === {wanted}", f"it shows {texts}")

    async def other(self):
        bob = Friend(self.server.ports["xmpp"][1], f"{self.bob}@localhost/phone",
                     f"secret of {self.bob}")
        self.people.append(bob)
        bob.client.register_plugin("xep_0045")
        bob.hear("groupchat_message")
        return await bob.here()

    @together
    async def test_people_become_contacts_talk_and_find_what_was_said(self):
        page, bob = self.open(self.ann), await self.other()
        ann_jid, bob_jid = f"{self.ann}@localhost", f"{self.bob}@localhost"
        bob.presence(ann_jid, "subscribe")
        page.until(f"_converse.roster.get({json.dumps(bob_jid)})", "bob asks")
        page.run(f"_converse.roster.get({json.dumps(bob_jid)}).authorize().subscribe(); 1")
        await bob.until("presence_subscribed", ann_jid)
        await bob.until("presence_subscribe", ann_jid)
        bob.presence(ann_jid, "subscribed")
        await bob.comes(ann_jid)
        page.until(f"_converse.roster.get({json.dumps(bob_jid)}).get('subscription') === 'both'",
                   "both see each other")
        bob.client.send_presence(pshow="away")
        page.until(f"_converse.roster.get({json.dumps(bob_jid)}).presence.getStatus() === 'away'",
                   "bob is away")
        self.chat(page, bob_jid)
        self.say(page, "hello <&> 世界")
        self.assertEqual((await bob.next())["body"], "hello <&> 世界")
        bob.say(ann_jid, "hello yourself")
        self.shows(page, "hello <&> 世界", "hello yourself")
        again = self.open(self.ann)
        self.chat(again, bob_jid)
        self.shows(again, "hello <&> 世界", "hello yourself")

    @together
    async def test_people_talk_in_a_room(self):
        bob = await self.other()
        room = f"{own_name(self, 'room')}@conference.localhost"
        self.server.ask("POST", "/v1/chat/groups",
                        {"owner": self.ann, "group": room, "members": [self.bob]})
        await bob.client.plugin["xep_0045"].join_muc_wait(room, self.bob, maxstanzas=0, timeout=20)
        page = self.open(self.ann)
        page.run(f"_converse.api.rooms.open({json.dumps(room)}, "
                 f"{{ nick: {json.dumps(self.ann)} }}, true).then(() => 1)")
        page.until("document.querySelector('.chatroom textarea.chat-textarea')", "ann is in")
        page.type(".chatroom textarea.chat-textarea", "hello, room")
        page.key("Enter", ".chatroom textarea.chat-textarea")
        while not (heard := await bob.next("groupchat_message"))["body"]:
            pass
        self.assertEqual((heard["body"], str(heard["from"])), ("hello, room", f"{room}/{self.ann}"))
        bob.client.send_message(room, "hello, ann", mtype="groupchat")
        self.shows(page, "hello, room", "hello, ann")


if __name__ == "__main__":
    unittest.main()
