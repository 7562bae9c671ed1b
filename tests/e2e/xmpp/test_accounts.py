"""Accounts by XMPP: registration (XEP-0077), commands of administrators (XEP-0050, XEP-0133)."""

from xml.etree import ElementTree

from fixture import DEADLINE_S, poll
from xmpp.people import HEADER, SASL, People, Scram, slixmpp, together

LISTEN = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}
REGISTER = "jabber:iq:register"
COMMANDS = "http://jabber.org/protocol/commands"
ADMIN = "http://jabber.org/protocol/admin"
BOSS = "boss"


def register(name, password):
    return (f"<iq type='set' id='r'><query xmlns='{REGISTER}'><username>{name}</username>"
            f"<password>{password}</password></query></iq>")


class Accounts(People):
    def logs_in(self, name, password):
        """Whether a stream of its own is let in."""
        link = self.stream()
        link.say(HEADER)
        link.until("</stream:features>")
        scram = Scram(name, password)
        link.say(f"<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{scram.first}</auth>")
        challenge = link.until("</challenge>").split("</challenge>")[0].rsplit(">", 1)[1]
        last, _ = scram.last(challenge)
        link.say(f"<response xmlns='{SASL}'>{last}</response>")
        return not link.peek("failure")

    async def set(self, person, query, to="localhost"):
        """The answer to a question of the server that changes something."""
        iq = person.client.make_iq_set(ito=to)
        iq.append(query)
        return await iq.send()

    def user(self, name):
        status, answer = self.server.api("GET", f"/v1/users/{name}")
        return answer if status == 200 else None


class OwnPassword(Accounts):
    CHANGES = LISTEN

    @together
    async def test_a_password_is_changed_and_the_other_devices_go(self):
        desk = await self.person(self.ann, "desk").start()
        phone = await self.person(self.ann, "phone").start()
        desk.client.register_plugin("xep_0077")
        plugin = desk.client.plugin["xep_0077"]
        await plugin.change_password("something new", jid="localhost")
        await phone.next("disconnected")
        await desk.ping()
        self.assertTrue(self.logs_in(self.ann, "something new"))
        self.assertFalse(self.logs_in(self.ann, f"secret of {self.ann}"))

    def test_nobody_makes_an_account_where_that_is_not_open(self):
        link = self.stream()
        link.say(HEADER)
        self.assertNotIn("iq-register", link.until("</stream:features>"))
        with self.server.closes(out_of_order=1):
            link.say(register("carol", "secret"))
            self.assertIn("<not-authorized ", link.rest())


class Open(Accounts):
    CHANGES = {**LISTEN, "chat": {"registration": "open"}}

    def test_an_account_is_made_and_logs_in_on_the_same_stream(self):
        name, link = f"{self.ann}.new"[-60:].lstrip(".-_"), self.stream()
        link.say(HEADER)
        self.assertIn("http://jabber.org/features/iq-register", link.until("</stream:features>"))
        link.say(register(self.ann, "another"))
        self.assertIn("<conflict ", link.until("</iq>"))
        link.say(register("not a name", "another"))
        self.assertIn("<not-acceptable ", link.until("</iq>"))
        link.say(register(name, "secret"))
        self.assertIn("type='result'", link.until("</iq>"))
        self.assertTrue(self.user(name)["has_password"])
        scram = Scram(name, "secret")
        link.say(f"<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{scram.first}</auth>")
        link.until("</challenge>")
        self.assertTrue(self.logs_in(name, "secret"))

    @together
    async def test_an_account_is_given_up(self):
        ann = await self.person(self.ann, "desk").start()
        ann.client.register_plugin("xep_0077")
        await ann.client.plugin["xep_0077"].cancel_registration(jid="localhost")
        await ann.next("disconnected")
        poll(lambda: self.user(self.ann) is None, "it is gone")


class Administrators(Accounts):
    CHANGES = {**LISTEN, "chat": {"administrators": [BOSS]}}

    def command(self, node, inner="", **attributes):
        more = "".join(f" {name}='{value}'" for name, value in attributes.items())
        return ElementTree.fromstring(
            f"<command xmlns='{COMMANDS}' node='{ADMIN}#{node}'{more}>{inner}</command>")

    async def does(self, boss, node, **fields):
        """The outcome of a command, whose form has these fields."""
        begun = await self.set(boss, self.command(node, action="execute"))
        command = begun.xml.find(f"{{{COMMANDS}}}command")
        self.assertEqual(command.get("status"), "executing")
        values = {"FORM_TYPE": ADMIN, **fields}
        form = "".join(f"<field var='{name}'><value>{value}</value></field>"
                       for name, value in values.items())
        form = f"<x xmlns='jabber:x:data' type='submit'>{form}</x>"
        answer = await self.set(
            boss, self.command(node, form, sessionid=command.get("sessionid")))
        return answer.xml.find(f"{{{COMMANDS}}}command")

    async def boss(self):
        self.server.ask("PUT", f"/v1/users/{BOSS}", {"password": f"secret of {BOSS}"})
        return await self.person(BOSS, "desk").start()

    @together
    async def test_accounts_are_made_changed_and_removed_by_commands(self):
        boss, name = await self.boss(), f"{self.ann}.new"[-60:].lstrip(".-_")
        jid = f"{name}@localhost"
        made = await self.does(boss, "add-user", accountjid=jid, password="one",
                               **{"password-verify": "one"})
        self.assertEqual(made.get("status"), "completed")
        self.assertTrue(self.logs_in(name, "one"))
        await self.does(boss, "change-user-password", accountjid=jid, password="two")
        self.assertTrue(self.logs_in(name, "two"))
        await self.does(boss, "disable-user", accountjids=jid)
        self.assertTrue(self.user(name)["disabled"])
        await self.does(boss, "reenable-user", accountjids=jid)
        bob = await self.person(self.bob).start()
        await self.does(boss, "end-user-session", accountjids=f"{self.bob}@localhost")
        await bob.next("disconnected")
        await self.does(boss, "delete-user", accountjids=jid)
        self.assertIsNone(self.user(name))
        entries = self.server.ask("GET", f"/v1/audit_log?token=xmpp:{BOSS}&limit=20")["entries"]
        actions = [entry["action"] for entry in entries if name in entry["on"]]
        self.assertEqual(actions, ["XMPP remove", "XMPP enable", "XMPP disable", "XMPP password",
                                   "XMPP add"])

    @together
    async def test_an_announcement_reaches_all_who_are_here_and_is_in_the_audit_log(self):
        boss = await self.boss()
        people = [await self.person(name).start() for name in (self.ann, self.bob)]
        for person in [boss, *people]:
            # Its home, which may be on another shard, has its presence when it has answered this.
            await person.client.get_roster(timeout=DEADLINE_S)
        done = await self.does(boss, "announce", subject="Tonight", announcement="At ten &lt;1&gt;")
        self.assertEqual(done.get("status"), "completed")
        for person in [boss, *people]:
            heard = await person.next("message")
            self.assertEqual((heard["type"], heard["from"].full), ("headline", "localhost"))
            self.assertEqual((heard["subject"], heard["body"]), ("Tonight", "At ten <1>"))
        entries = self.server.ask("GET", f"/v1/audit_log?token=xmpp:{BOSS}&limit=1")["entries"]
        self.assertEqual([entry["action"] for entry in entries], ["XMPP announce"])
        told = await self.does(boss, "user-stats", accountjid=f"{self.ann}@localhost")
        fields = {field.get("var"): [value.text for value in field]
                  for field in told.iter("{jabber:x:data}field")}
        self.assertEqual(fields["rostersize"], ["0"])
        self.assertEqual(fields["onlineresources"], [people[0].client.boundjid.resource])

    @together
    async def test_who_is_here_is_told_to_administrators_alone(self):
        boss, ann = await self.boss(), await self.person(self.ann).start()
        answer = await self.set(boss, self.command("get-online-users-num"))
        text = "".join(answer.xml.itertext())
        self.assertIn("2", text)
        here = await self.does(boss, "get-online-users-list", max_items="25")
        self.assertIn(f"{self.ann}@localhost", "".join(here.itertext()))
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await self.set(ann, self.command("get-online-users-num"))
        self.assertEqual(refused.exception.iq["error"]["condition"], "forbidden")
