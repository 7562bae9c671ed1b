"""The chat page while somebody changes a group as a room of XMPP: several changes at once."""

import json

from im.page import PAGE, ROWS, PageCase
from xmpp.people import Stream

ROOM = "tea@conference.localhost"
MUC = "http://jabber.org/protocol/muc"


class RoomsOnThePage(PageCase):
    CHANGES = {**PAGE, "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}

    def setUp(self):
        """Ann makes a room by entering it."""
        super().setUp()
        for name in ("ann", "bob", "dave"):
            self.server.ask("PUT", f"/v1/users/{name}", {"password": f"secret of {name}"})
        self.owner = Stream(self.server.ports["xmpp"]).log_in("ann")
        self.addCleanup(self.owner.close)
        self.orders("bind", "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>", to="")
        self.owner.say("<presence/>")
        self.owner.until("<presence")
        self.owner.say(f"<presence to='{ROOM}/ann'><x xmlns='{MUC}'/></presence>")
        self.owner.until("<status code='201'/>")

    def orders(self, number, order, to=f" to='{ROOM}'"):
        """An order of the owner, who has the result."""
        self.owner.say(f"<iq type='set' id='{number}'{to}>{order}</iq>")
        answer = self.owner.until(f"id='{number}'") + self.owner.until(">")
        self.assertIn("type='result'", answer[answer.rindex("<iq"):])

    def configures(self, **wanted):
        fields = "".join(f"<field var='muc#roomconfig_{name}'><value>{value}</value></field>"
                         for name, value in wanted.items())
        self.orders("form", f"<query xmlns='{MUC}#owner'><x xmlns='jabber:x:data' type='submit'>"
                            f"{fields}</x></query>")

    def affiliates(self, **wanted):
        items = "".join(f"<item jid='{name}@localhost' affiliation='{affiliation}'/>"
                        for name, affiliation in wanted.items())
        self.orders("list", f"<query xmlns='{MUC}#admin'>{items}</query>")

    def ends(self, page, text):
        """The last row of the conversation."""
        last = f"{ROWS}.at(-1)?.querySelector('.text').textContent"
        page.until(f"{last} === {json.dumps(text)}", f"it ends with {text}")

    def test_changes_that_were_made_at_once_are_one_row_and_none_is_lost(self):
        ann, bob = (self.person(name, f"secret of {name}") for name in ("ann", "bob"))
        self.configures(roomname="Tea")
        # The list has the new title.
        ann.choose("Tea")
        self.ends(ann, "You renamed the group to “Tea”; you unlocked the group: everyone who knows "
                       "its address can join; you made the group public: it is in the list of "
                       "groups")
        self.affiliates(bob="owner", dave="admin")
        bob.choose("Tea")
        self.ends(bob, "ann added you, dave; ann made you an owner; ann made dave an admin")
        self.affiliates(bob="none", dave="member")
        self.ends(ann, "You made dave a member again; you removed bob")
        self.ends(bob, "ann made dave a member again; ann removed you")
        bob.until("/no longer a member/.test(document.getElementById('closed').textContent)"
                  " && document.getElementById('say').hidden", "he is told why he cannot write")
        self.calm(ann, bob)
