"""The laboratory's plans of instant messaging, against a running server: what was acknowledged is
what is stored is what was seen, in lock-step and pipelined, also while connections are reset."""

import os
import re
import signal
import tempfile

from fixture import BINARY, run
from lab.runs import OF_THE_MACHINE, Runs

BROKEN = """
name = "broken"
[[group]]
name = "senders"
user = "PREFIX.s%i"
threads = 2
back_after = "20ms"
[[group]]
name = "receivers"
user = "PREFIX.r%i"
threads = 2
back_after = "20ms"
[[group]]
name = "auditors"
user = "PREFIX.r%i"
id = "audit-%i"
audits = true
[[stage]]
name = "send"
clients = { senders = 4, receivers = 6 }
hold = "10m"
[[stage.traffic.senders]]
what = "publish"
topic = "PREFIX.r%i"
among = 6
loops = 10
pace = { every = "20ms" }
[[stage.fault]]
at = "300ms"
what = { cut = { share = 0.7, how = "reset" } }
[[stage.fault]]
at = "600ms"
what = { cut = { share = 0.7, how = "close" } }
[[stage]]
name = "audit"
clients = { senders = 0, receivers = 0, auditors = 6 }
hold = "10m"
pass = ["audit.missing == 0", "audit.unacknowledged == 0", "audit.differs == 0",
        "audit.repeated == 0", "audit.reordered == 0", "audit.changed == 0"]
"""


def url(server):
    host, port = server.ports["any"]
    return f"im://{host}:{port}"


class Load(Runs):
    def load(self, plan, *words, server=None):
        return self.run_plan(plan, url(server or self.server), *words)

    def small(self, name, *more, server=None, **parameters):
        """A run of a plan that comes along, between people of its own."""
        own = {"SendUserPrefix": f"{self.name[:30]}.u", "ReceiveUserPrefix": f"{self.name[:30]}.ru",
               **parameters}
        words = [word for key, value in own.items() for word in ("--set", f"{key}={value}")]
        return self.load(name, *words, *more, "--set", "stage.connect.hold=1s", server=server)

    def test_w1_in_lock_step(self):
        made = self.small("im-w1", SendUserCount=5, ReceiveUserCount=8, Loop=4)
        counted = self.held(made)
        self.assertEqual(counted["messages.taken"], 5 * 8 * 4)
        # One watches, and the auditors pull everything.
        self.assertEqual(counted["messages.received"], 5 * 4 + 160)
        self.assertEqual(counted["messages.pulled"], 160)
        self.assertTrue([stage for stage in made["stages"] if stage["name"] == "quiet"])

    def test_w2_pipelined(self):
        made = self.small("im-w2", SendUserCount=5, ReceiveUserCount=8, Loop=30, Window=64)
        counted = self.held(made)
        self.assertEqual(counted["messages.taken"], 1_200)
        self.assertEqual(counted["messages.received"], 2 * 1_200)

    def test_every_size(self):
        for size in (36, 37, 1_000, 65_536):
            made = self.small("im-w2", SendUserCount=2, ReceiveUserCount=3, Loop=2, Window=4,
                              MessageBytes=size, SendUserPrefix=f"u{size}.",
                              ReceiveUserPrefix=f"ru{size}.")
            self.assertEqual(self.held(made)["messages.bytes"], 2 * 12 * size)

    def test_a_second_run_among_the_same_people_is_told_apart(self):
        small = {"SendUserCount": 2, "ReceiveUserCount": 3, "Loop": 2}
        self.held(self.small("im-w2", **small))
        devices = ("--set", "group.auditors.id=new-%i")
        for more, earlier in (((), 0), (devices, 24)):
            counted = self.held(self.small("im-w2", *more, **small))
            self.assertEqual((counted["messages.taken"], counted["messages.received"]), (12, 24))
            # Who has audited before goes on from there; a new device finds those runs, too.
            self.assertEqual(counted["messages.earlier"], earlier)

    def broken(self, change=lambda text: text):
        """A plan that breaks connections, or what it is changed to break."""
        folder = tempfile.TemporaryDirectory(prefix="holdline-load-")
        self.addCleanup(folder.cleanup)
        plan = os.path.join(folder.name, "broken.toml")
        with open(plan, "w", encoding="utf-8") as file:
            file.write(change(BROKEN.replace("PREFIX", self.name[:30])))
        return plan

    def test_what_is_acknowledged_is_stored_once_whatever_is_reset(self):
        made = self.load(self.broken())
        counted = self.held(made)
        self.assertGreater(counted["reconnects"], 0)
        self.assertEqual(counted["messages.taken"], 4 * 6 * 10)
        self.assertEqual(counted["messages.received"], 2 * 240)

    def test_what_is_acknowledged_is_stored_once_though_the_server_is_killed(self):
        server = self.start()
        host, port = server.ports["any"]
        server.configure({"listen.any": {"address": f"{host}:{port}"}})
        kill = 'what = "target_killed"\nfor = "200ms"\n'
        plan = self.broken(lambda text: re.sub("what = { cut = .*reset.*\n", kill, text))
        started = f"{BINARY} serve --config {server.file} --data {server.data}"
        made = self.load(plan, "--pid", str(server.pid), "--start", started, server=server)
        notes = " ".join(note["text"] for note in made["notes"])
        again = re.search(r"restarted as process (\d+)", notes)
        self.assertTrue(again, notes)
        os.kill(int(again.group(1)), signal.SIGKILL)
        server.process.wait()
        counted = self.held(made)
        self.assertEqual((counted["messages.taken"], counted["messages.received"]), (240, 480))

    def test_who_has_a_password_shows_it_or_proves_it(self):
        for name in [f"k.u{n}" for n in range(2)] + [f"k.ru{n}" for n in range(2)]:
            status, answer = self.server.api("PUT", f"/v1/users/{name}", {"password": "right one"})
            self.assertLess(status, 300, answer)
        for scram in ("false", "true"):
            words = ["--set", f"group.*.scram={scram}", "--set", "group.*.password=right one"]
            for key, value in {"SendUserPrefix": "k.u", "ReceiveUserPrefix": "k.ru",
                               "SendUserCount": 2, "ReceiveUserCount": 2, "Loop": 1}.items():
                words += ["--set", f"{key}={value}"]
            made = self.load("im-w2", *words, "--set", "stage.connect.hold=1s")
            self.assertEqual(self.held(made)["messages.taken"], 4)
        made = self.load("im-w2", *[word.replace("right", "wrong") for word in words],
                         "--set", "stage.connect.arrive_max=2s")
        self.assertEqual(made["stages"][0]["counts"]["codes"], {"refused 1": 4})

    def test_w6_is_had_or_told_of_whole(self):
        limits = {"chatroom_messages_per_s": 20_000, "chatroom_messages_burst": 20_000}
        server = self.start({"chat": limits})
        made = self.small("im-w6", SendUserCount=5, ReceiveUserCount=20, Loop=20, server=server)
        counted = self.held(made)
        self.assertEqual(counted["messages.taken"], 100)
        had = counted["messages.received"] + counted["messages.skipped"]
        self.assertEqual((had, counted["messages.missing"]), (2_000, 0))

    GROUPS = {"SendUserCount": 4, "ReceiveUserCount": 5, "GroupCount": 3, "Loop": 4}

    def of_groups(self, made, messages, watchers=1):
        """What a run of groups counted: four senders and five receivers in each."""
        counted = self.held(made, (*OF_THE_MACHINE, "errors == 0"))
        self.assertEqual(counted["messages.taken"], messages)
        # Each message stands in nine inboxes, its sender's too, and each member's pull has it.
        self.assertEqual((counted["audit.expected"], counted["audit.entries"]), (9 * messages,) * 2)
        audit = made["stages"][-1]["counts"]["figures"]
        self.assertEqual(audit["messages.pulled"], 9 * messages)
        # Senders are lite: only who watches has heard it, too.
        self.assertEqual(counted["messages.received"], (9 + watchers) * messages)
        return counted

    def test_w3_is_exact_in_every_members_inbox(self):
        made = self.small("im-w3", **self.GROUPS)
        self.of_groups(made, 4 * 3 * 4)
        notes = " ".join(note["text"] for note in made["notes"])
        self.assertIn("groups: 3 conversations of 9 created", notes)

    def test_w4_pipelined_with_all_receivers_online(self):
        made = self.small("im-w4", **{**self.GROUPS, "Loop": 30, "Window": 64, "WatchUserCount": 5})
        self.of_groups(made, 4 * 3 * 30, watchers=5)

    def test_senders_that_are_not_lite_hear_each_other(self):
        made = self.small("im-w5", "--set", "group.senders.lite=false", **self.GROUPS)
        # Each of 48 messages is heard by the three others who send, and by the one who watches.
        self.assertEqual(self.of_groups(made, 48, watchers=4)["messages.repeated"], 0)

    def test_groups_are_exact_though_the_server_is_killed(self):
        server = self.start()
        host, port = server.ports["any"]
        server.configure({"listen.any": {"address": f"{host}:{port}"}})
        folder = tempfile.TemporaryDirectory(prefix="holdline-load-")
        self.addCleanup(folder.cleanup)
        plan = os.path.join(folder.name, "killed.toml")
        text = run("load", "plan", "im-w3").stdout
        text = text.replace('pace = { window = "$Window" }', 'pace = { every = "40ms" }\n'
                            '[[stage.fault]]\nat = "300ms"\nwhat = "target_killed"\n'
                            'for = "200ms"')
        self.assertIn("target_killed", text)
        with open(plan, "w", encoding="utf-8") as file:
            file.write(text)
        started = f"{BINARY} serve --config {server.file} --data {server.data}"
        soon = ("--set", "group.*.back_after=20ms", "--set", "group.*.back_max=200ms")
        made = self.small(plan, *soon, "--pid", str(server.pid), "--start", started,
                          server=server, **{**self.GROUPS, "Loop": 10})
        notes = " ".join(note["text"] for note in made["notes"])
        again = re.search(r"restarted as process (\d+)", notes)
        self.assertTrue(again, notes)
        os.kill(int(again.group(1)), signal.SIGKILL)
        server.process.wait()
        counted = self.of_groups(made, 4 * 3 * 10)
        self.assertGreater(counted["reconnects"], 0)

    def test_a_group_that_may_not_be_so_large_is_told(self):
        server = self.start({"chat": {"group_members_max": 8}})
        made = self.small("im-w5", server=server, **self.GROUPS)
        self.assertFalse(made["finished"])
        notes = " ".join(note["text"] for note in made["notes"])
        self.assertIn("group_members_max = 9", notes)
        self.assertEqual([stage["name"] for stage in made["stages"]][-1], "groups")
