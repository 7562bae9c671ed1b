"""Federation with ejabberd, over TLS by dialback: what is shown with Prosody is shown with it.

It is Debian's, started by `erl` itself: its ejabberdctl wants its own user and folders of the
system. Where a.example is stands in a file of Erlang's resolver.
"""

import os

from fixture import DEADLINE_S
from mqtt.broker import free_port
from program import Program
from xmpp import test_prosody

CONFIGURATION = """
hosts: ["b.example"]
loglevel: 3
certfiles: ["FOLDER/certificate.pem"]
auth_method: mnesia
s2s_use_starttls: required
outgoing_s2s_port: HOLDLINE
outgoing_s2s_timeout: 10
s2s_dns_timeout: 1
s2s_dns_retries: 1
listen:
  - { port: CLIENTS, ip: "127.0.0.1", module: ejabberd_c2s, starttls: false }
  - { port: SERVERS, ip: "127.0.0.1", module: ejabberd_s2s_in }
acl: { local: { user_regexp: "" } }
access_rules: { local: { allow: local } }
modules:
  mod_disco: {}
  mod_ping: {}
  mod_roster: {}
  mod_s2s_dialback: {}
  mod_muc: { host: "conference.b.example", access_create: local }
"""
RESOLVER = """
{file, hosts, "/dev/null"}.
{host, {127,0,0,1}, ["a.example"]}.
{nameserver, {127,0,0,1}}.
{lookup, [file]}.
"""


class Ejabberd(Program):
    """One that serves b.example, and knows a.example at a port."""

    COMMANDS, START_S = ("erl", "ejabberdctl"), 3 * DEADLINE_S

    def __init__(self, holdline, authority):
        super().__init__()
        self.clients, self.servers, self.people = free_port(), free_port(), []
        certificate, key = authority.issue("b.example", "DNS:b.example,DNS:conference.b.example")
        whole = ""
        for part in (certificate, key):
            with open(part, encoding="ascii") as file:
                whole += file.read()
        self.write("certificate.pem", whole)
        self.write("inetrc", RESOLVER)
        text = CONFIGURATION
        for name, value in (("FOLDER", self.folder), ("CLIENTS", self.clients),
                            ("SERVERS", self.servers), ("HOLDLINE", holdline)):
            text = text.replace(name, str(value))
        self.write("ejabberd.yml", text)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def register(self, name, password):
        self.people.append((name, password))

    def words(self):
        made = "".join(f'ok = ejabberd_auth:try_register(<<"{name}">>, <<"b.example">>, '
                       f'<<"{password}">>), ' for name, password in self.people)
        environment = {"ERL_LIBS": "/usr/lib/x86_64-linux-gnu", "ERL_CRASH_DUMP": "/dev/null",
                       "ERL_INETRC": self.path("inetrc")}
        return ["env", *(f"{key}={value}" for key, value in environment.items()),
                "erl", "-noshell", "-noinput", "-mnesia", "dir", f'"{self.path("db")}"',
                "-ejabberd", "config", f'"{self.path("ejabberd.yml")}"',
                "log_path", f'"{self.path("log")}"',
                "-eval", f"{{ok, _}} = application:ensure_all_started(ejabberd), {made}ok."]

    def answers(self):
        listens = test_prosody.Prosody.listens
        return listens(self.clients) and listens(self.servers)

    def start(self):
        super().start()
        assert os.path.exists(self.path("log")), self.output()


class WithEjabberd(test_prosody.WithProsody):
    NEIGHBOUR = Ejabberd

    test_messages_pass_both_ways = test_prosody.Prosodies.test_messages_pass_both_ways
    test_they_become_contacts_and_see_each_other = (
        test_prosody.Prosodies.test_they_become_contacts_and_see_each_other)
    test_questions_pass_both_ways = test_prosody.Prosodies.test_questions_pass_both_ways
    test_somebody_of_ours_is_in_a_room_of_theirs = (
        test_prosody.Prosodies.test_somebody_of_ours_is_in_a_room_of_theirs)
