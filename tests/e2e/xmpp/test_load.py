"""The laboratory's people of XMPP: at Holdline, and at Prosody, a server that others have written,
with stream management and without."""

from lab.runs import OF_THE_MACHINE, Runs
from mqtt.broker import free_port
from program import Program
from xmpp.people import add_users
from xmpp.test_prosody import Prosody as Neighbour

USERS = 20
SMALL = ("--set", f"Users={USERS}", "--set", "Contacts=5", "--set", "Hold=3s", "--set", "Low=50",
         "--set", "High=200", "--set", "stage.connect.hold=1s")

PROSODY = """
run_as_root = true
prosody_user = "root"
prosody_group = "root"
daemonize = false
pidfile = "FOLDER/pid"
data_path = "FOLDER/data"
plugin_paths = { "FOLDER" }
interfaces = { "127.0.0.1" }
c2s_ports = { PORT }
s2s_ports = {}
http_ports = {}
https_ports = {}
modules_enabled = { "roster", "saslauth", "disco", "ping", "people"MORE }
modules_disabled = { "s2s" }
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
authentication = "internal_hashed"
password_hash = "SHA-256"
log = { warn = "FOLDER/log" }
VirtualHost "localhost"
"""
PEOPLE = """
local usermanager = require "core.usermanager";
for at = 0, COUNT - 1 do
    assert(usermanager.create_user("user-"..at, "secret", module.host));
end
"""


class Prosody(Program):
    """One with so many people, and further modules."""

    COMMANDS, START_S = ("prosody",), Neighbour.START_S

    def __init__(self, more):
        super().__init__()
        self.port = free_port()
        self.write_file("prosody.cfg.lua", PROSODY, FOLDER=self.folder, PORT=self.port, MORE=more)
        self.write_file("mod_people.lua", PEOPLE, COUNT=USERS)

    def words(self):
        return ["prosody", "--config", self.path("prosody.cfg.lua")]

    def answers(self):
        return Neighbour.listens(self.port)


class Load(Runs):
    SHARED = False

    def served(self):
        """A server with its people, and their URL."""
        server = self.start({"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}})
        add_users(server, [f"user-{number},secret" for number in range(USERS)])
        return server, "xmpp://{}:{}".format(*server.ports["xmpp"])

    def talked(self, made):
        counted = self.held(made)
        self.assertGreater(counted["messages.taken"], 100)
        self.assertEqual(counted["messages.received"], counted["messages.taken"])
        self.assertEqual(made["total"]["codes"], {})

    def test_tigases_test_is_whole(self):
        server, url = self.served()
        self.talked(self.run_plan("tigase", url, *SMALL))
        self.assertGreater(server.count("chat_sent_total"), 100)

    def test_prosody_is_tested_by_its_own_counts_and_by_pings(self):
        for more in (', "smacks"', ""):
            prosody = Prosody(more)
            self.addCleanup(prosody.close)
            prosody.start()
            made = self.run_plan("tigase", f"xmpp://127.0.0.1:{prosody.port}", *SMALL)
            self.talked(made)
            prosody.close()

    def test_who_is_not_let_in_is_told_by_code(self):
        _, url = self.served()
        made = self.run_plan("tigase", url, *SMALL, "--set", "Password=wrong",
                             "--set", "stage.connect.arrive_max=3s")
        self.assertEqual(made["stages"][0]["counts"]["codes"], {"refused 10": USERS})

    def test_whoever_is_cut_comes_back_and_what_it_says_then_is_judged(self):
        _, url = self.served()
        cut = "stage.waves.fault=[{at=\"1s\",what={cut={share=0.5,how=\"reset\"}}}]"
        made = self.run_plan("tigase", url, *SMALL, "--set", cut,
                             "--set", "group.users.back_after=50ms")
        # What was on its way when it was cut is lost, or comes although nobody said that it would.
        counted = self.held(made, (*OF_THE_MACHINE, "messages.missing == 0"))
        self.assertGreaterEqual(counted["reconnects"], USERS / 2, made["notes"])
        self.assertEqual((counted["messages.changed"], counted["messages.repeated"]), (0, 0))
