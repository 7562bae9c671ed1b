"""The laboratory at servers that others have written, at ones that refuse, and at our own page of
metrics; and the binary under another program's name."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading

from certificates import Authority
from fixture import BINARY, environment
from lab.runs import Runs
from mqtt.broker import free_port
from program import Program

# As it comes with its package, but for its folder, ports and names: TLS before the login, passwords
# kept as SCRAM-SHA-1.
PROSODY = '''
run_as_root = true
prosody_user = "root"
prosody_group = "root"
daemonize = false
pidfile = "FOLDER/pid"
data_path = "FOLDER/data"
interfaces = { "127.0.0.1" }
c2s_ports = { CLIENTS }
c2s_direct_tls_ports = {}
s2s_ports = {}
modules_enabled = { "roster", "saslauth", "tls", "disco", "ping", "smacks" }
c2s_require_encryption = true
authentication = "internal_hashed"
log = { debug = "FOLDER/log" }
ssl = { certificate = "CERTIFICATE", key = "KEY" }
VirtualHost "b.example"
'''
XMPP = """
name = "others"
pass = ["errors == 0", "messages.missing == 0", "messages.other_sender == 0"]
[[group]]
name = "users"
user = "user-%i@b.example"
password = "secret"
scram = true
hears = { users = 1 }
[[stage]]
name = "talk"
clients = { users = 3 }
hold = "60s"
pass = ["online_share == 1"]
[[stage.traffic.users]]
what = "publish"
topic = "user-%i@b.example"
among = 3
messages = 30
pace = { window = 2 }
"""
HELD = """
name = "held"
[[group]]
name = "g"
back_after = "10ms"
[[stage]]
name = "hold"
clients = { g = 3 }
hold = "HOLD"
"""


class Prosody(Program):
    COMMANDS, START_S = ("prosody", "prosodyctl"), 90

    def __init__(self):
        super().__init__()
        self.port = free_port()
        os.mkdir(self.path("data"))
        certificate, key = Authority(self.folder).issue("b.example", "DNS:b.example")
        self.write_file("prosody.cfg.lua", PROSODY, FOLDER=self.folder, CLIENTS=self.port,
                        CERTIFICATE=certificate, KEY=key)

    def register(self, name, password):
        subprocess.run(["prosodyctl", "--config", self.path("prosody.cfg.lua"), "register", name,
                        "b.example", password], check=True, capture_output=True, timeout=60)

    def words(self):
        return ["prosody", "--config", self.path("prosody.cfg.lua")]

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Others(Runs):
    def plan(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False)
        self.addCleanup(os.unlink, file.name)
        with file:
            file.write(text)
        return file.name

    def test_a_stock_prosody_is_spoken_to_by_starttls_and_scram_sha_1(self):
        prosody = Prosody()
        self.addCleanup(prosody.close)
        for number in range(3):
            prosody.register(f"user-{number}", "secret")
        prosody.start()
        made = self.run_plan(self.plan(XMPP), f"xmpp://127.0.0.1:{prosody.port}")
        figures = self.held(made)
        self.assertEqual(figures["messages.received"], 30)

    def test_a_server_that_answers_nonsense_ends_the_run_and_is_named(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1024)
                    # As much as its first two bytes would say to a client of MQTT, and more.
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + 100 * b"nonsense")
                    connection.recv(1)  # until the client is gone
        threading.Thread(target=serve, daemon=True).start()
        # It would hold for an hour, with nobody there.
        plan = self.plan(HELD.replace("HOLD", "1h"))
        made = self.run_plan(plan, f"mqtt://127.0.0.1:{listener.getsockname()[1]}")
        self.assertFalse(made["finished"])
        self.assertIn("the target accepted no client", [note["text"] for note in made["notes"]])
        said = [found["what"] for found in made["findings"] if found["side"] == "target"]
        self.assertTrue([what for what in said if "protocol_violation" in what], said)

    def test_our_own_page_of_metrics_fits(self):
        host, port = self.server.ports["api"]
        mqtt = ":".join(map(str, self.server.ports["any"]))
        made = self.run_plan(self.plan(HELD.replace("HOLD", "3s")), f"mqtt://{mqtt}", "--metrics",
                             f"http://{host}:{port}/metrics", "--token", self.server.token)
        notes = [note["text"] for note in made["notes"]]
        self.assertEqual([note for note in notes if "left out" in note], [])
        names = {column["name"] for column in made["series"]["columns"]}
        page = {line.split("{")[0].split(" ")[0] for line in self.server.metrics().splitlines()
                if line and not line.startswith("#") and "_bucket" not in line}
        # Each name is a figure, and more are made of its labels.
        self.assertGreater(len(page), 200)
        self.assertEqual({name for name in page if f"server.{name}" not in names}, set())
        self.assertIn("server.scrape_us", names)

    def test_a_binary_called_coolpy7_benchmark_is_that_program(self):
        folder = tempfile.mkdtemp(prefix="holdline-coolpy7-")
        self.addCleanup(shutil.rmtree, folder)
        program = os.path.join(folder, "coolpy7_benchmark")
        os.symlink(BINARY, program)
        host, port = self.server.ports["any"]
        made = subprocess.run(
            [program, "-workers=4", "-cid=tqy", "-topic=my/%i", "-qos=0", "-clear=true",
             f"-url=tcp://{host}:{port}", "-keepalive=600s", "-duration=4s"],
            env=environment(None), cwd=folder, capture_output=True, text=True, timeout=120)
        self.assertIn("Server resources by number of clients", made.stdout, made.stderr)
        table = made.stdout.split("Server resources by number of clients")[1].splitlines()
        self.assertEqual([line.split()[0] for line in table[2:6]], ["1", "2", "3", "4"])
