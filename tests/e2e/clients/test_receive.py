"""The examples `receive` of the libraries for Go, Java and C, against a real server: a push is
stored by the application before it is acknowledged, a Report reaches the application's server, and
an interrupt says good-bye.
"""

import glob
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from clients.device import CLIENTS
from fixture import Case, Sse, poll
from miop import DEADLINE_S


class Receive(Case):
    def receives(self, device, command):
        folder = tempfile.mkdtemp(prefix="holdline-client-")
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "pushes")
        events = Sse(self.server, "?product=demo&type=report")
        self.addCleanup(events.close)
        program = subprocess.Popen([*command, "%s:%d" % self.server.ports["any"], "demo", device,
                                    path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.server.online(device)
        pushed = [self.server.push(device, text)["id"] for text in ("one", "two")]
        poll(lambda: self.server.state(device)["waiting"] == 0, "all is acknowledged")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), f"{pushed[0]} one\n{pushed[1]} two\n")
        reports = [(data["seq"], data["body"]) for _, data, _ in events.wait(2)]
        self.assertEqual(reports, [(1, "stored"), (2, "stored")])
        program.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.offline(device)["reason"], "unbound")
        program.wait(DEADLINE_S)

    def library(self, name):
        return os.path.join(CLIENTS, name)

    @unittest.skipUnless(shutil.which("go"), "go is not installed")
    def test_go_stores_reports_and_leaves(self):
        with tempfile.TemporaryDirectory(prefix="holdline-client-") as folder:
            program = os.path.join(folder, "receive")
            subprocess.run(["go", "build", "-o", program, "./examples/receive"],
                           cwd=self.library("miop-go"), check=True)
            self.receives("receive-go", [program])

    @unittest.skipUnless(shutil.which("javac"), "a JDK is not installed")
    def test_java_stores_reports_and_leaves(self):
        sources = [path for part in ("src/main/java", "examples")
                   for path in glob.glob(os.path.join(self.library("miop-java"), part,
                                                      "**/*.java"), recursive=True)]
        with tempfile.TemporaryDirectory(prefix="holdline-client-") as folder:
            subprocess.run(["javac", "--release", "11", "-d", folder, *sources], check=True)
            self.receives("receive-java", ["java", "-XX:TieredStopAtLevel=1", "-cp", folder,
                                           "holdline.examples.Receive"])

    @unittest.skipUnless(shutil.which("cc"), "a C compiler is not installed")
    def test_c_stores_reports_and_leaves(self):
        library = self.library("miop-c")
        sources = [os.path.join(library, "examples/receive.c"),
                   *glob.glob(os.path.join(library, "src/*.c")),
                   *(os.path.join(library, "posix", name)
                     for name in ("miop_posix.c", "miop_proxy.c"))]
        with tempfile.TemporaryDirectory(prefix="holdline-client-") as folder:
            program = os.path.join(folder, "receive")
            subprocess.run(["cc", "-std=c99", "-I", os.path.join(library, "include"), "-I",
                            os.path.join(library, "posix"), *sources, "-o", program], check=True)
            self.receives("receive-c", [program])
