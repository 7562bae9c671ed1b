"""Agents on machines of their own: namespaces with a broker, two or three agents, a coordinator.

What the report says is held against what is known: how many clients there were, that all clocks
are one, when an agent was killed or cut off.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import fixture
from fixture import BINARY, environment, poll
from machines import Net, possible

TOKEN = "token of the agents"
PLAN = """
name = "agents"
about = "Clients on several machines hear each other."

[[group]]
name = "device"
subscribe = ["to/%i"]

[[stage]]
name = "talk"
clients = { device = CLIENTS }
arrive = { shape = "rate", per_s = 200 }
arrive_max = "30s"
hold = "HOLD"
traffic = { device = [{ what = "publish", topic = "to/%i", among = CLIENTS, qos = 1,
                        pace = { per_s = 100 } }] }
"""
WHY_NOT = possible() or ("" if shutil.which("mosquitto") else "needs mosquitto")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Agents(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="holdline-agents-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.net = Net(["server", "boss", "a", "b"])
        self.addCleanup(self.net.close)
        configuration = os.path.join(self.folder, "mosquitto.conf")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write("listener 1883 0.0.0.0\nallow_anonymous true\nlog_type all\n")
        self.broker = self.net.start(
            "server", "mosquitto", "-c", configuration,
            stdout=subprocess.DEVNULL, stderr=open(self.path("mosquitto.log"), "wb"))
        self.answers("server", 1883)

    def path(self, name):
        return os.path.join(self.folder, name)

    def answers(self, name, port):
        """Waits until somebody listens on a machine's port."""
        address = self.net.addresses[name]
        trial = f"import socket; socket.create_connection(('{address}', {port}), 1).close()"
        words = [*self.net.words("boss"), "python3", "-c", trial]
        poll(lambda: subprocess.run(words, capture_output=True, check=False).returncode == 0,
             f"{name} listens on {port}")

    def agent(self, name, *more):
        """An agent on a machine, listening."""
        listen = f"{self.net.addresses[name]}:7700"
        process = self.net.start(
            name, BINARY, "load", "agent", "--listen", listen, "--name", f"agent-{name}", *more,
            env=environment({"HOLDLINE_AGENTS_TOKEN": TOKEN}), stderr=subprocess.DEVNULL)
        self.answers(name, 7700)
        return process

    def boss(self, agents, clients, hold, *more, token=TOKEN):
        """Starts a run from the coordinator's machine."""
        plan = self.path("plan.toml")
        with open(plan, "w", encoding="utf-8") as file:
            file.write(PLAN.replace("CLIENTS", str(clients)).replace("HOLD", hold))
        agents = ",".join(f"{self.net.addresses[name]}:7700" for name in agents)
        url = f"mqtt://{self.net.addresses['server']}:1883"
        return self.net.start(
            "boss", BINARY, "load", "run", plan, url, "--agents", agents, "--out",
            self.path("runs"), "--plain", *more, env=environment({"HOLDLINE_AGENTS_TOKEN": token}),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self, process, within_s=fixture.DEADLINE_S):
        """The output and the run that a coordinator has left."""
        said, _ = process.communicate(timeout=within_s)
        folders = os.listdir(self.path("runs")) if os.path.isdir(self.path("runs")) else []
        if not folders:
            return said, None
        with open(os.path.join(self.path("runs"), folders[0], "run.json"), encoding="utf-8") as file:
            return said, json.load(file)

    def conserved(self, run):
        total = run["total"]
        self.assertEqual(total["attempts"], total["open"] + sum(total["causes"].values()), total)
        for account in total["accounts"]:
            self.assertEqual(account["total"], sum(count for _, count in account["parts"]), account)

    def test_clients_of_all_agents_are_one_fleet(self):
        self.agent("a")
        self.agent("b")
        self.agent("server", "--observe-port", "1883")
        said, run = self.end(self.boss(["server", "a", "b"], 301, "3s"))
        self.assertIsNotNone(run, said)
        self.conserved(run)
        self.assertEqual((run["total"]["attempts"], run["total"]["bound"]), (301, 301), said)
        self.assertLessEqual(set(run["total"]["causes"]), {"online.run_over"})
        agents = {agent["name"]: agent for agent in run["agents"]}
        self.assertEqual({name: agent["clients"] for name, agent in agents.items()},
                         {"agent-server": 0, "agent-a": 151, "agent-b": 150})
        for agent in agents.values():
            # All namespaces have one clock.
            self.assertLessEqual(abs(agent["offset_us"]), agent["offset_error_us"], agent)
            self.assertLess(agent["offset_error_us"], 50_000, agent)
            self.assertIsNone(agent["lost_ms"], agent)
        columns = {column["name"] for column in run["series"]["columns"]}
        for name in ("agent-a.cpu.busy", "agent-b.cpu.busy", "target.process.rss", "target.cpu.busy"):
            self.assertIn(name, columns)
        self.assertIn("agent-a", {whose for whose, _ in run["doctor"]})
        # Every number was there once: the broker has taken nobody's session from anybody.
        with open(self.path("mosquitto.log"), encoding="utf-8", errors="replace") as file:
            log = file.read()
        self.assertNotIn("already connected", log)
        self.assertIn(" as device-0 ", log)
        self.assertIn(" as device-300 ", log)
        # Whoever hears is mostly on the other machine, and what was said is heard.
        figures = run["total"]["figures"]
        self.assertGreater(figures["messages.sent"], 100)
        self.assertEqual(figures.get("messages.missing", 0), 0)
        self.assertTrue(any("corrected by their clocks' offsets" in note["text"]
                            for note in run["notes"]), run["notes"])

    def test_an_agent_killed_in_the_midst_is_reported(self):
        self.agent("a")
        victim = self.agent("b")
        boss = self.boss(["a", "b"], 100, "15s", "--go-on-without-agents")
        self.holding(boss)
        victim.send_signal(signal.SIGKILL)
        said, run = self.end(boss)
        self.assertIsNotNone(run, said)
        self.conserved(run)
        lost = {agent["name"]: agent["lost_ms"] for agent in run["agents"]}
        self.assertIsNone(lost["agent-a"])
        self.assertGreater(lost["agent-b"], 0)
        self.assertEqual(run["total"]["causes"].get("online.agent_lost"), 50, run["total"]["causes"])
        self.assertEqual(run["total"]["attempts"], 100)
        notes = [note["text"] for note in run["notes"]]
        self.assertTrue(any("agent-b was lost" in note for note in notes), notes)

    def test_a_run_that_may_not_go_on_ends_when_an_agent_is_lost(self):
        self.agent("a")
        victim = self.agent("b")
        boss = self.boss(["a", "b"], 20, "60s")
        self.holding(boss)
        victim.send_signal(signal.SIGKILL)
        said, run = self.end(boss, 30)
        self.assertIsNotNone(run, said)
        self.assertFalse(run["finished"], said)
        self.assertNotEqual(boss.returncode, 0)

    def test_a_machine_that_falls_silent_is_missed_though_no_connection_ended(self):
        self.agent("a")
        self.agent("b")
        boss = self.boss(["a", "b"], 40, "25s", "--go-on-without-agents")
        self.holding(boss)
        began = time.monotonic()
        self.net.cut("b")
        said, run = self.end(boss, 90)
        self.assertIsNotNone(run, said)
        self.conserved(run)
        lost = {agent["name"]: agent["lost_ms"] for agent in run["agents"]}
        self.assertIsNone(lost["agent-a"], said)
        self.assertIsNotNone(lost["agent-b"], f"{time.monotonic() - began} s\n{said}")
        notes = [note["text"] for note in run["notes"]]
        self.assertTrue(any("no data for 10 s" in note for note in notes), notes)

    def test_without_the_token_nobody_is_let_in(self):
        self.agent("a")
        boss = self.boss(["a"], 10, "1s", token="a guess")
        said, run = self.end(boss)
        self.assertIsNone(run)
        self.assertIn("wrong token", said)
        self.assertEqual(boss.returncode, 2, said)

    def holding(self, boss):
        """Waits until all clients are there."""
        seen = []
        for line in boss.stdout:
            seen.append(line)
            if " holding " in line:
                return
        self.fail("it never held: " + "".join(seen))


if __name__ == "__main__":
    unittest.main()
