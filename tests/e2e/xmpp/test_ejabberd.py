"""Federation with ejabberd, a server that others have written: over TLS, by dialback.

Where a.example is it asks a resolver of the test, by its service (RFC 6120 3.2.1); where localhost
is the machine knows.
"""

import json
import os

import names
from fixture import DEADLINE_S
from mqtt.broker import free_port
from program import Program
from xmpp import test_prosody
from xmpp.test_prosody import WithNeighbour

CONFIGURATION = """
hosts: ["b.example"]
loglevel: 4
certfiles: [FOLDER/both.pem]
auth_method: mnesia
s2s_use_starttls: required
outgoing_s2s_families: [ipv4]
listen:
  - { port: CLIENTS, ip: "127.0.0.1", module: ejabberd_c2s, starttls: false }
  - { port: SERVERS, ip: "127.0.0.1", module: ejabberd_s2s_in }
acl: { local: { user_regexp: "" } }
access_rules: { local: { allow: local } }
shaper_rules: {}
modules:
  mod_disco: {}
  mod_muc: { host: "conference.b.example", access_create: local }
  mod_offline: {}
  mod_ping: {}
  mod_roster: {}
  mod_s2s_dialback: {}
"""
# The machine's resolver is not asked.
ASKS = '{resolv_conf, "/dev/null"}.\n{nameserver, {127,0,0,1}, PORT}.\n'
HOSTS = ("a.example", "conference.a.example")


class Ejabberd(Program):
    """One that serves b.example, and knows a.example at a port."""

    COMMANDS, START_S = ("ejabberdctl", "erl"), 6 * DEADLINE_S

    def __init__(self, holdline, authority):
        super().__init__()
        self.clients, self.servers = free_port(), free_port()
        self.people = []
        files = authority.issue("b.example", "DNS:b.example,DNS:conference.b.example")
        pem = ""
        for file in files:
            with open(file, encoding="utf-8") as content:
                pem += content.read()
        self.write_file("both.pem", pem)
        self.write_file("ejabberd.yml", CONFIGURATION, FOLDER=self.folder, CLIENTS=self.clients,
                        SERVERS=self.servers)
        self.zone = names.Zone({
            (f"_xmpp-server._tcp.{host}", names.SRV): [names.place(0, 0, holdline, "localhost")]
            for host in HOSTS})
        self.write_file("inetrc", ASKS, PORT=self.zone.at.rpartition(":")[2])

    def register(self, name, password):
        """Somebody who is there from the start on."""
        self.people.append((name, password))

    def words(self):
        made = "".join(f"ok = ejabberd_auth:try_register(<<{json.dumps(name)}>>, <<\"b.example\">>, "
                       f"<<{json.dumps(password)}>>), " for name, password in self.people)
        begin = (f"{{ok, _}} = application:ensure_all_started(ejabberd), {made}"
                 f"ok = file:write_file({json.dumps(self.path('made'))}, <<>>).")
        quoted = [json.dumps(self.path(name)) for name in ("db", "ejabberd.yml", "log")]
        return ["env", f"ERL_INETRC={self.path('inetrc')}", "ERL_CRASH_DUMP=/dev/null",
                "ERL_LIBS=/usr/lib/x86_64-linux-gnu", f"HOME={self.folder}",
                "erl", "-noshell", "-noinput", "-mnesia", "dir", quoted[0],
                "-ejabberd", "config", quoted[1], "log_path", quoted[2], "-eval", begin]

    def close(self):
        super().close()
        self.zone.close()

    def answers(self):
        return os.path.exists(self.path("made"))


class Ejabberds(test_prosody.Federated, WithNeighbour):
    """With ejabberd."""

    NEIGHBOUR = Ejabberd
