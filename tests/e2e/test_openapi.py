"""Clients that generators make of /openapi.json work against the server that served it.

docs/api.md has the same commands. openapi-python-client and the generator of TypeScript stand for
all: their clients are made, compiled, and list clients, make a user, push, read the status and
name errors.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import unittest
import urllib.request

import fixture
from fixture import Case
from mqtt import wire
from mqtt.drivers import BUILT

SOURCES = os.path.join(fixture.ROOT, "tests", "e2e", "openapi")
PYTHON = os.path.join(BUILT, "openapi-python")
JAR = os.path.join(BUILT, "openapi-generator", "jars", "openapi-generator-cli.jar")
MODULES = os.path.join(BUILT, "openapi-generator", "node_modules")
DEADLINE_S = 300


class Generated(Case):
    CHANGES = {"listen.mqtt": {"address": "127.0.0.1:0", "protocol": "mqtt"}}

    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.server.folder, self.name)
        os.mkdir(self.folder)
        host, port = self.server.ports["api"]
        self.url = f"http://{host}:{port}"
        with urllib.request.urlopen(f"{self.url}/openapi.json", timeout=DEADLINE_S) as answer:
            with open(os.path.join(self.folder, "openapi.json"), "wb") as file:
                file.write(answer.read())

    def command(self, *words, **environment):
        """Its output, of both kinds."""
        done = subprocess.run(words, cwd=self.folder, env=fixture.environment(environment),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def check(self, name, told):
        """What a client of this language was answered."""
        told = json.loads(told)
        self.assertEqual(told.pop("version"), self.server.status()["version"])
        self.assertEqual(told, {
            "clients": ["till-7"], "next": None, "user": [name, True, ["prices/#"]],
            "push": [[f"{name}-1", "stored"]], "errors": ["unknown_user", "wrong_token"]})

    def connected(self):
        link = socket.create_connection(self.server.ports["mqtt"], timeout=fixture.DEADLINE_S)
        self.addCleanup(link.close)
        link.sendall(wire.connect(wire.V311, "till-7"))
        self.assertEqual(link.recv(4), bytes([wire.CONNACK << 4, 2, 0, 0]))

    @unittest.skipUnless(os.path.isdir(PYTHON), "openapi-python-client is missing: NOT TRIED")
    def test_a_client_in_python(self):
        settings = os.path.join(SOURCES, "python.yaml")
        out = self.command(
            sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json",
            "--output-path", "holdline_client", "--meta", "none", "--config", settings,
            PYTHONPATH=PYTHON)
        self.assertNotRegex(out, re.compile("warning|error", re.IGNORECASE))
        self.connected()
        self.check("python", self.command(
            sys.executable, os.path.join(SOURCES, "client.py"), self.url, self.server.token,
            PYTHONPATH=f"{self.folder}:{PYTHON}"))

    @unittest.skipUnless(os.path.isfile(JAR) and os.path.isdir(MODULES) and shutil.which("java"),
                         "openapi-generator is missing: NOT TRIED")
    def test_a_client_in_typescript(self):
        out = self.command("java", "-jar", JAR, "generate", "-i", "openapi.json",
                           "-g", "typescript-fetch", "-o", "holdline")
        self.assertNotRegex(out, r"\bERROR\b|Exception|(?i:operationId)|unexpected")
        shutil.copy(os.path.join(SOURCES, "client.ts"), self.folder)
        self.command("node", os.path.join(MODULES, "typescript", "bin", "tsc"), "--strict",
                     "--target", "es2022", "--module", "nodenext", "--types", "node",
                     "--typeRoots", os.path.join(MODULES, "@types"), "--outDir", "out", "client.ts")
        self.connected()
        self.check("typescript", self.command(
            "node", os.path.join("out", "client.js"), self.url, self.server.token))
