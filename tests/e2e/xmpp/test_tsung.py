"""Tsung, a load tool that others have written: its people log in over STARTTLS, are all there at
once, talk to each other, and go.

HOLDLINE_E2E_TSUNG says how many they are; this machine lets a process have some 15,000.
"""

import os
import re
import shutil
import tempfile

from certificates import Authority
from fixture import DEADLINE_S, Case, Server
from program import Program
from xmpp.people import add_users

PEOPLE = int(os.environ.get("HOLDLINE_E2E_TSUNG", "100"))
# So many come in a second; what each says, and the pause before it: until all are there.
A_SECOND, TALKS = 100, 3
PAUSE_S = -(-PEOPLE // (A_SECOND * TALKS)) + 1

PLAN = """<?xml version="1.0"?>
<!DOCTYPE tsung SYSTEM "/usr/share/tsung/tsung-1.0.dtd">
<tsung loglevel="warning" version="1.0">
<clients><client host="localhost" use_controller_vm="true" maxusers="30000"/></clients>
<servers><server host="127.0.0.1" port="PORT" type="tcp"/></servers>
<load><arrivalphase phase="1" duration="60" unit="minute">
<users maxnumber="PEOPLE" arrivalrate="A_SECOND" unit="second"/></arrivalphase></load>
<options>
<option type="ts_jabber" name="global_number" value="GLOBAL"/>
<option type="ts_jabber" name="userid_max" value="PEOPLE"/>
<option type="ts_jabber" name="domain" value="localhost"/>
<option type="ts_jabber" name="username" value="tsung"/>
<option type="ts_jabber" name="passwd" value="secret"/>
</options>
<sessions><session probability="100" name="talk" type="ts_jabber" bidi="true">
<request><jabber type="connect" ack="local"/></request>
<request><jabber type="starttls" ack="bidi_ack"/></request>
<request><jabber type="connect" ack="local"/></request>
<request><match do="abort" when="nomatch">success</match>
<jabber type="auth_sasl" ack="local"/></request>
<request><jabber type="connect" ack="local"/></request>
<request><match do="abort" when="nomatch">&lt;jid&gt;</match>
<jabber type="auth_sasl_bind" ack="local"/></request>
<request><match do="abort" when="nomatch">jabber:iq:roster</match>
<jabber type="iq:roster:get" ack="local"/></request>
<request><jabber type="presence:initial" ack="no_ack"/></request>
<for from="1" to="TALKS" var="n">
<thinktime value="PAUSE" random="false"/>
<request><jabber type="chat" ack="no_ack" size="56" destination="online"/></request>
</for>
<thinktime value="PAUSE" random="false"/>
<request><jabber type="presence:final" ack="no_ack"/></request>
<request><jabber type="close" ack="no_ack"/></request>
</session></sessions>
</tsung>
"""


class Tsung(Program):
    """One run of it."""

    COMMANDS = ("tsung",)

    def __init__(self, port):
        super().__init__()
        self.write_file("tsung.xml", PLAN, PORT=port, PEOPLE=PEOPLE, GLOBAL=max(1, PEOPLE // 10),
                        A_SECOND=A_SECOND, TALKS=TALKS, PAUSE=PAUSE_S)

    def words(self):
        return ["env", f"HOME={self.folder}", "tsung", "-f", self.path("tsung.xml"),
                "-l", self.path("log"), "start"]

    def answers(self):
        return True

    def told(self):
        """What it has counted to its end, {name: count}."""
        text = ""
        for folder, _, files in os.walk(self.path("log")):
            if "tsung.log" in files:
                with open(os.path.join(folder, "tsung.log"), encoding="utf-8") as file:
                    text += file.read()
        last = text.split("# stats: dump")[-1]
        return {name: int(float(count))
                for name, count in re.findall(r"^stats: (\w+) .*?([\d.]+)$", last, re.M)}


class Crowd(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        self.addCleanup(shutil.rmtree, self.folder)
        certificate, key = Authority(self.folder).issue("localhost", "DNS:localhost")
        self.server = Server({
            "tls": {"certificate": certificate, "key": key},
            "limits": {"binds_per_s": 1_000, "connections_max": PEOPLE + 100},
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}})
        self.addCleanup(self.server.close)

    def test_its_people_come_by_tls_talk_and_go(self):
        add_users(self.server, [f"tsung{number},secret{number}" for number in range(1, PEOPLE + 1)])
        tsung = Tsung(self.server.ports["xmpp"][1])
        self.addCleanup(tsung.close)
        tsung.start()
        stays_s = PEOPLE / A_SECOND + (TALKS + 1) * PAUSE_S
        self.assertEqual(tsung.process.wait(2 * stays_s + 3 * DEADLINE_S), 0, tsung.output())
        told = tsung.told()
        for what, count in (("users_count", PEOPLE), ("finish_users_count", PEOPLE),
                            ("xmpp_starttls", PEOPLE), ("match", 3 * PEOPLE)):
            self.assertEqual(told.get(what), count, (what, told))
        wrong = {name for name in told if name.startswith(("error", "nomatch"))}
        self.assertEqual(wrong, set(), told)
        counters = self.server.ask("GET", "/v1/status")["counters"]
        self.assertEqual(counters["chat_sent_total"], TALKS * PEOPLE, told)
