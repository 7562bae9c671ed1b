"""Stanzas in one write are done in order (RFC 6120 10.1), by hand."""

import unittest

from xmpp.people import People

BIND = ("<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
        "<resource>desk</resource></bind></iq>")
MAM = "<iq type='set' id='ask{}'><query xmlns='urn:xmpp:mam:2'/></iq>"


class Order(People):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}

    def bound(self, name):
        stream = self.logged_in(name)
        stream.say(BIND + "<presence/>")
        stream.until("<presence")
        return stream

    def test_an_archive_has_the_message_before_the_question(self):
        ann = self.bound(self.ann)
        for number in range(10):
            text = f"number {number}"
            ann.say(f"<message to='{self.bob}@localhost' type='chat' id='m{number}'>"
                    f"<body>{text}</body></message>" + MAM.format(number))
            self.assertIn(f"<body>{text}</body>", ann.until(f"id='ask{number}'"))

    def test_what_is_said_to_oneself_comes_back(self):
        ann = self.bound(self.ann)
        ann.say(f"<message to='{self.ann}@localhost' type='chat' id='note'>"
                "<body>a note</body></message>")
        self.assertIn("a note", ann.until("</message>"))

    def test_a_room_hears_what_is_said_right_behind_entering_it(self):
        ann = self.bound(self.ann)
        room = f"{self.ann}@conference.localhost"
        ann.say(f"<presence to='{room}/{self.ann}'><x xmlns='http://jabber.org/protocol/muc'/>"
                f"</presence><message to='{room}' type='groupchat' id='r1'><body>hello</body>"
                "</message>")
        self.assertNotIn("error", ann.until("<body>hello</body>"))


if __name__ == "__main__":
    unittest.main()
