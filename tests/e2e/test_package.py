"""The Debian package: made twice the same, installed into a copy of this machine's root that is
thrown away, started there by its unit's command as its user, upgraded, removed, purged.

The copy is an overlay in a namespace of mounts, with a network of its own, so that the server has
the ports of its defaults. The commands are those of docs/install.md.
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

from fixture import BINARY, ROOT, end_with_parent, environment, poll
from miop import DEADLINE_S

TOOLS = ["dpkg-deb", "dpkg-shlibdeps", "strip", "systemd-analyze", "systemd-sysusers", "unshare",
         "nsenter", "setpriv", "ip"]
UNIT = "/usr/lib/systemd/system/holdline.service"
CONFIGURATION = "/etc/holdline/holdline.toml"

PATHS = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}

# What a copy of the machine may take up, in memory.
ROOM = "400m"

MAKE_ROOT = f"""set -e
mount -t tmpfs -o size={ROOM} tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" "$1/root"
for place in proc dev sys; do mount --rbind /$place "$1/root/$place"; done
mount -t tmpfs tmpfs "$1/root/run"
# The index of all pages of the machine is not made anew for ours: it takes longer than the rest.
rm -f "$1/root/var/lib/man-db/auto-update"
ip link set lo up
echo ready
exec cat
"""


def can_make_roots():
    script = "mount -t tmpfs tmpfs /mnt && mkdir /mnt/u /mnt/w /mnt/r && " \
             "mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/r && " \
             "ip link set lo up"
    words = ["unshare", "-m", "-n", "sh", "-c", script]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


class Root:
    """A copy of this machine's root, for one test."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="holdline-root-")
        self.keeper = subprocess.Popen(
            ["unshare", "-m", "-n", "--propagation", "private", "sh", "-c", MAKE_ROOT, "-",
             self.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=end_with_parent)
        if self.keeper.stdout.readline() != "ready\n":
            raise AssertionError("a copy of the root could not be made")
        self.enter = ["nsenter", "-t", str(self.keeper.pid), "-m", "-n", "chroot",
                      os.path.join(self.folder, "root")]

    def run(self, *words, content=None, expect=0):
        """Runs a command there; what it printed."""
        env = {**PATHS, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        done = subprocess.run([*self.enter, *words], input=content, capture_output=True, env=env,
                              timeout=6 * DEADLINE_S, check=False)
        text = (done.stdout + done.stderr).decode(errors="replace")
        if expect is not None and done.returncode != expect:
            raise AssertionError(f"{words} ended with {done.returncode}:\n{text}")
        return text

    def documented(self, line):
        """Runs a command that stands in the page for whoever operates a server."""
        with open(os.path.join(ROOT, "docs", "install.md"), encoding="utf-8") as file:
            lines = [found.split(" # ")[0].strip() for found in file if found.startswith("    ")]
        if line not in lines:
            raise AssertionError(f"docs/install.md has no command {line!r}")
        return self.run(*line.split())

    def write(self, place, content):
        self.run("sh", "-c", f"cat > {place}", content=content)

    def is_there(self, place):
        return self.run("sh", "-c", f"[ -e {place} ] && echo yes || echo no") == "yes\n"

    def install(self, package):
        with open(package, "rb") as file:
            self.write("/holdline.deb", file.read())
        return self.run("dpkg", "--install", "/holdline.deb")

    def close(self):
        self.keeper.stdin.close()
        self.keeper.wait()
        self.keeper.stdout.close()
        os.rmdir(self.folder)


def package(folder, umask=0o022):
    """Makes a package of the binary; its path."""
    os.makedirs(folder)
    env = {**os.environ, "HOLDLINE_PACKAGE_BINARY": BINARY, "HOLDLINE_PACKAGE_COMPRESS": "none",
           "HOLDLINE_PACKAGE_VERSION": "0.1.0-1", "SOURCE_DATE_EPOCH": "1700000000"}
    script = os.path.join(ROOT, "packaging", "package.sh")
    done = subprocess.run([script, folder], env=env, capture_output=True, text=True, umask=umask,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"no package was made:\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()[-1]


def newer(package, version, folder):
    """The same package as another version; its path."""
    place = os.path.join(folder, version)
    subprocess.run(["dpkg-deb", "--raw-extract", package, place], check=True)
    control = os.path.join(place, "DEBIAN", "control")
    subprocess.run(["sed", "-i", f"s/^Version: .*/Version: {version}/", control], check=True)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", place, place + ".deb"],
                   check=True, capture_output=True)
    shutil.rmtree(place)
    return place + ".deb"


def missing():
    tools = [tool for tool in TOOLS if not shutil.which(tool)]
    if tools:
        return f"not installed: {', '.join(tools)}"
    return None if can_make_roots() else "this machine lets nobody make overlays of its root"


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = missing()
        if why:
            raise unittest.SkipTest(why)
        cls.folder = tempfile.mkdtemp(prefix="holdline-package-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.first = package(os.path.join(cls.folder, "first"))

    def unpacked(self):
        place = os.path.join(self.folder, "unpacked")
        if not os.path.isdir(place):
            subprocess.run(["dpkg-deb", "--raw-extract", self.first, place], check=True)
        return place

    def test_made_twice_it_is_the_same(self):
        again = package(os.path.join(self.folder, "again"), umask=0o077)
        with open(self.first, "rb") as one, open(again, "rb") as other:
            self.assertTrue(one.read() == other.read(), "the packages differ")

    def test_it_has_pages_completions_and_whose_file_is_whose(self):
        place = self.unpacked()
        pages = glob.glob(f"{place}/usr/share/man/man1/*.gz")
        self.assertIn("holdline-serve.1.gz", [os.path.basename(page) for page in pages])
        completions = {"bash": "usr/share/bash-completion/completions/holdline",
                       "zsh": "usr/share/zsh/vendor-completions/_holdline",
                       "fish": "usr/share/fish/vendor_completions.d/holdline.fish"}
        for shell, file in completions.items():
            with self.subTest(shell=shell):
                if shutil.which(shell):
                    subprocess.run([shell, "-n", os.path.join(place, file)], check=True)
                self.assertGreater(os.path.getsize(os.path.join(place, file)), 1000)
        listed = subprocess.run(["dpkg-deb", "--contents", self.first], capture_output=True,
                                text=True, check=True).stdout.splitlines()
        self.assertEqual({line.split()[1] for line in listed}, {"root/root"})
        with open(f"{place}/DEBIAN/control", encoding="utf-8") as file:
            depends = re.search(r"^Depends: (.*)$", file.read(), re.M).group(1)
        self.assertIn("libc6 (>= ", depends)

    def test_the_list_of_what_is_in_it_is_of_the_binary_and_nothing_else(self):
        with open(f"{self.unpacked()}/usr/share/doc/holdline/holdline.cdx.json",
                  encoding="utf-8") as file:
            bom = json.load(file)
        self.assertEqual((bom["bomFormat"], bom["specVersion"]), ("CycloneDX", "1.5"))
        found = {part["name"]: part for part in bom["components"]}
        self.assertEqual(len(found["rustls"]["hashes"][0]["content"]), 64)
        self.assertIn("MIT", found["ring"]["licenses"][0]["expression"] + "MIT")
        self.assertIn("libmimalloc-sys", found, "what is compiled of C is named by its crate")
        tests = {"rcgen", "rusqlite", "sim", "xtask", "testkit"} & set(found)
        self.assertEqual(tests, set(), "they are for tests and measurements")
        refs = {part["bom-ref"] for part in bom["components"]}
        refs.add(bom["metadata"]["component"]["bom-ref"])
        for each in bom["dependencies"]:
            self.assertLessEqual({each["ref"], *each["dependsOn"]}, refs)

    def test_examples_are_whole(self):
        folder = f"{self.unpacked()}/usr/share/doc/holdline/examples"
        files = sorted(os.listdir(folder))
        self.assertEqual(files, ["chat.toml", "edge-mqtt.toml", "push.toml"])
        for name in [*files, "../../../../../etc/holdline/holdline.toml"]:
            answer = subprocess.run([BINARY, "check", "--quiet", "--config", f"{folder}/{name}"],
                                    capture_output=True, text=True, check=False,
                                    env=environment())
            # Their certificates and users are not there; nothing else is wrong with them.
            wrong = [line for line in answer.stderr.splitlines()
                     if "No such file or directory" not in line and "warning" not in line]
            self.assertEqual((wrong, answer.stdout), ([], ""), name)

    def test_no_link_of_its_pages_is_dead(self):
        folder = f"{self.unpacked()}/usr/share/doc/holdline"
        pages = glob.glob(f"{folder}/**/*.md", recursive=True)
        self.assertGreater(len(pages), 80)
        dead, seen = [], 0
        for page in pages:
            with open(page, encoding="utf-8") as file:
                text = re.sub(r"^ *```.*?^ *```", "", file.read(), flags=re.M | re.S)
            text = re.sub(r"`[^`\n]*`", "", text)
            links = re.findall(r"\]\(([^()\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)
            for target in links:
                path = target.partition("#")[0]
                if not path or re.match(r"[a-z][a-z0-9+.-]*:", target):
                    continue
                seen += 1
                if not os.path.exists(os.path.join(os.path.dirname(page), path)):
                    dead.append(f"{os.path.relpath(page, folder)}: {target}")
        self.assertGreater(seen, 300)
        self.assertEqual(dead, [])
        for name in ("im.proto", "alerts.yml", "grafana/holdline.json", "wire/im.md"):
            self.assertTrue(os.path.isfile(f"{folder}/{name}"), name)

    def test_lintian_finds_nothing(self):
        if not shutil.which("lintian"):
            self.skipTest("not installed: lintian")
        # It is packed without compression here, which is quick, and which Debian does not take.
        packed = "uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball"
        answer = subprocess.run(["lintian", "--allow-root", "--fail-on=error,warning",
                                 f"--suppress-tags={packed}", self.first],
                                capture_output=True, text=True, check=False)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)


RUN_IMAGE = """set -e
mkdir "$1/root/var/lib/holdline"
mount --bind "$1/root" "$1/root"
mount -o remount,bind,ro "$1/root"
mount --bind "$1/data" "$1/root/var/lib/holdline"
ip link set lo up
shift
exec "$@"
"""


class Image(unittest.TestCase):
    setUpClass = Package.__dict__["setUpClass"]

    def words(self, instruction):
        """What an instruction of the Dockerfile says."""
        with open(os.path.join(ROOT, "packaging", "Dockerfile"), encoding="utf-8") as file:
            return json.loads(re.search(rf"^{instruction} (\[.*\])$", file.read(), re.M).group(1))

    def test_its_root_is_all_that_it_needs_and_is_not_written_to(self):
        folder = os.path.join(self.folder, "image")
        env = {**os.environ, "HOLDLINE_IMAGE_PACKAGE": self.first, "HOLDLINE_IMAGE_BUILDER": "none"}
        subprocess.run([os.path.join(ROOT, "packaging", "image.sh"), folder], env=env, check=True,
                       capture_output=True)
        os.chown(os.path.join(folder, "data"), 65532, 65532)
        enter = ["chroot", "--userspec=65532:65532", "--groups=", os.path.join(folder, "root")]
        server = subprocess.Popen(
            ["unshare", "-m", "-n", "--propagation", "private", "sh", "-c", RUN_IMAGE, "-", folder,
             *enter, *self.words("ENTRYPOINT"), *self.words("CMD")],
            env=PATHS, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=end_with_parent)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        status = ["nsenter", "-t", str(server.pid), "-m", "-n", *enter,
                  "/usr/bin/holdline", "status", "--data", "/var/lib/holdline"]
        poll(lambda: server.poll() is not None or subprocess.run(
            status, env=PATHS, capture_output=True, check=False).returncode == 0, "it is ready")
        self.assertIsNone(server.poll(), "it ended at its start")
        server.terminate()
        self.assertEqual(server.wait(2 * DEADLINE_S), 0, server.stderr.read())


class Rooted(unittest.TestCase):
    """A root of its own, with what an operator does in it."""

    setUpClass = Package.__dict__["setUpClass"]

    def setUp(self):
        self.root = Root()
        self.addCleanup(self.root.close)

    def unit(self):
        """What the installed unit says: {key: value}, of keys that are there several times the
        first."""
        keys = re.findall(r"^(\w+)=(.*)$", self.root.run("cat", UNIT), re.M)
        return dict(reversed(keys))

    def serve(self):
        """Starts the server as its manager would: its user, its folders, no more rights, and its
        command line."""
        unit = self.unit()
        folder = f"/var/lib/{unit['StateDirectory']}"
        self.assertEqual(unit["WorkingDirectory"], folder)
        self.root.run("install", "-d", "-o", unit["User"], "-g", unit["Group"], "-m",
                      unit["StateDirectoryMode"], folder)
        self.assertEqual(unit["PrivateTmp"], "yes")
        words = ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /tmp && exec \"$@\"", "-",
                 "setpriv", "--reuid", unit["User"], "--regid", unit["Group"], "--clear-groups",
                 "--bounding-set=-all", "--no-new-privs", "--pdeathsig", "KILL",
                 "env", "-i", "-C", folder, *unit["ExecStart"].split()]
        server = subprocess.Popen([*self.root.enter, *words], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return server

    def ready(self, server):
        """Waits until it says that it takes everything."""
        status = "holdline status --data /var/lib/holdline >/dev/null 2>&1; echo $?"
        poll(lambda: server.poll() is not None or self.root.run("sh", "-c", status) == "0\n",
             "it is ready")
        self.assertIsNone(server.poll(), "it ended at its start")

    def stop(self, server):
        server.terminate()
        self.assertEqual(server.wait(2 * DEADLINE_S), 0, server.stderr.read())


class Installed(Rooted):
    def test_it_is_installed_started_upgraded_and_purged(self):
        root = self.root
        root.install(self.first)
        self.assertEqual(root.run("stat", "-c", "%U:%G %a", "/etc/holdline", CONFIGURATION),
                         "root:holdline 750\nroot:holdline 640\n")
        self.assertIn("holdline", root.run("getent", "passwd", "holdline"))
        server = self.serve()
        self.ready(server)
        root.documented("holdline status --data /var/lib/holdline")
        root.documented("holdline pub -q 1 -r -t room/1 -m kept")
        self.assertIn("holdline:holdline 600", root.run(
            "stat", "-c", "%U:%G %a", "/var/lib/holdline/api.token"))
        self.backs_up_and_restores(server)

        # An upgrade leaves what was changed, and what was stored.
        root.run("sed", "-i", "s/^#\\[tls\\]/[chat]\\ndomain = \"mine.example\"\\n#[tls]/",
                 CONFIGURATION)
        root.documented("holdline check --quiet --config /etc/holdline/holdline.toml")
        second = newer(self.first, "0.1.0-2", self.folder)
        self.assertNotIn("Configuration file", root.install(second))
        self.assertIn("mine.example", root.run("cat", CONFIGURATION))
        self.assertIn("0.1.0-2", root.run("dpkg-query", "--show", "holdline"))
        server = self.serve()
        self.ready(server)
        self.assertEqual(root.documented("holdline sub -C 1 -t room/1"), "kept\n")
        self.stop(server)

        root.documented("dpkg --remove holdline")
        self.assertTrue(root.is_there(CONFIGURATION) and root.is_there("/var/lib/holdline"))
        self.assertFalse(root.is_there("/usr/bin/holdline"))
        root.documented("dpkg --purge holdline")
        self.assertFalse(root.is_there("/etc/holdline") or root.is_there("/var/lib/holdline"))

    def backs_up_and_restores(self, server):
        """A backup where the unit may write, and the server started on it, by root. One in the
        unit's own /tmp is a failure. The server is stopped afterwards."""
        root, to = self.root, "/var/backups/holdline/monday"
        told = root.run(*"holdline store backup /tmp/monday --data /var/lib/holdline".split(),
                        expect=2)
        self.assertIn("/tmp/monday is not here", told)
        root.run("holdline", "store", "backup", to, "--data", "/var/lib/holdline")
        self.assertEqual(self.unit()["ReadWritePaths"], "-/var/backups/holdline")
        self.assertEqual(root.run("stat", "-c", "%U:%G %a", "/var/backups/holdline"),
                         "holdline:holdline 750\n")
        self.stop(server)
        restore = ["holdline", "store", "restore", to, "--data", "/var/lib/holdline"]
        self.assertIn("is not empty", root.run(*restore, expect=2))
        root.run("sh", "-c", "rm -r /var/lib/holdline/*")
        self.assertIn("restored to /var/lib/holdline", root.run(*restore))
        server = self.serve()
        self.ready(server)
        self.assertEqual(root.documented("holdline sub -C 1 -t room/1"), "kept\n")
        self.stop(server)

    def test_its_unit_is_sound_and_has_few_rights(self):
        self.root.install(self.first)
        self.assertEqual(self.root.run("systemd-analyze", "verify", "--man=no", UNIT), "")
        # The threshold is in tenths: 2.0 of 10 is what systemd calls OK.
        told = self.root.run("systemd-analyze", "security", "--offline=true", "--threshold=20",
                             "holdline.service")
        self.assertIn("Overall exposure level", told)
        self.assertEqual(self.root.run("systemd-sysusers", "--cat-config", "holdline.conf")
                         .count("u holdline"), 1)


TLS = """
[tls]
certificate = "/etc/holdline/chain.pem"
key = "/etc/holdline/key.pem"

[listen.mqtts]
address = "0.0.0.0:8883"
protocol = "mqtt"
tls = true
anonymous = "no"
"""
# Messages for somebody who does not read: more than may be in flight.
MANY = 300
BY_TLS = ["--cafile", "/etc/holdline/chain.pem", "-p", "8883", "-V", "5"]


class Operator(Rooted):
    """What somebody does who has the package and the book and nothing else: TLS, users, metrics,
    a dashboard, and a client that is slow."""

    def serve(self):
        server = super().serve()
        # Its log is read as it comes, so that it is never held up.
        server.told = []
        threading.Thread(target=lambda: server.told.extend(server.stderr), daemon=True).start()
        return server

    def secure(self):
        """TLS as docs/security.md has it, in the configuration that the package brought."""
        self.root.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                      "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj",
                      "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                      "-keyout", "/etc/holdline/key.pem", "-out", "/etc/holdline/chain.pem")
        self.root.run("sh", "-c", f"cat >> {CONFIGURATION}", content=TLS.encode())
        told = self.root.run("holdline", "check", "--quiet", "--config", CONFIGURATION)
        self.assertIn("/etc/holdline/key.pem: the service runs as holdline and cannot read "
                      "/etc/holdline/key.pem (mode 600, owner root, group root)", told)
        self.root.run("chgrp", "holdline", "/etc/holdline/key.pem")
        self.root.run("chmod", "640", "/etc/holdline/key.pem")
        self.root.documented("holdline check --quiet --config /etc/holdline/holdline.toml")

    def by(self, *words):
        """A command of somebody who has the API's first token."""
        return self.root.run("holdline", *words, "--data", "/var/lib/holdline")

    def metrics(self, token):
        return self.root.run("curl", "-fsS", "-H", f"Authorization: Bearer {token}",
                             "http://127.0.0.1:7080/metrics")

    def test_from_the_package_to_a_server_with_tls_and_users_that_is_watched(self):
        root = self.root
        root.install(self.first)
        self.secure()
        server = self.serve()
        self.ready(server)

        # Users: ann by TLS with her password, nobody without one.
        root.run("sh", "-c", "printf 'correct horse\\n' | holdline user put ann --password"
                 " --allow 'home/#' --data /var/lib/holdline")
        ann = [*BY_TLS, "-u", "ann", "-P", "correct horse", "-i", "ann"]
        root.run("holdline", "pub", *ann, "-q", "1", "-t", "home/lamp", "-m", "on")
        root.run("holdline", "pub", *BY_TLS, "-t", "home/lamp", "-m", "on", expect=0x87)
        root.run("holdline", "pub", *BY_TLS, "-u", "ann", "-P", "wrong", "-i", "ann", "-t",
                 "home/lamp", "-m", "on", expect=0x86)

        # Metrics by a token that may do nothing else; the dashboard and the alerts that the package
        # brings ask for what is there.
        token = self.by("token", "make", "prometheus", "--scope", "metrics").strip()
        page = self.metrics(token)
        there = set(re.findall(r"^# TYPE (\S+)", page, re.M))
        brought = "/usr/share/doc/holdline"
        dashboard = json.loads(root.run("cat", f"{brought}/grafana/holdline.json"))
        asked = {name for panel in dashboard["panels"] for target in panel.get("targets", ())
                 for name in re.findall(r"holdline_\w+", target["expr"])}
        asked |= set(re.findall(r"holdline_\w+", root.run("cat", f"{brought}/alerts.yml")))
        bare = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
        optional = {name for name in bare if name.startswith((
            "holdline_access_ldap_", "holdline_presence_", "holdline_webhook_",
            "holdline_archive_", "holdline_accounts_", "holdline_backup_", "holdline_bridge",
            "holdline_cluster_", "holdline_events_stream_", "holdline_otlp_"))}
        self.assertGreater(len(bare), 20)
        self.assertEqual(bare - optional - there, set())

        self.finds_who_is_slow(ann[:-1])
        self.stop(server)

    def finds_who_is_slow(self, by):
        """Somebody does not read: who it is and why, by what docs/operate.md says of slow
        consumers. Nothing is lost by it."""
        words = ["holdline", "sub", *by, "slow", "-q", "1", "-C", str(MANY), "-t", "home/#"]
        reader = subprocess.Popen([*self.root.enter, *words], env=PATHS, stdout=subprocess.PIPE,
                                  preexec_fn=end_with_parent)
        self.addCleanup(reader.stdout.close)
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        show = [*"holdline clients show slow --data /var/lib/holdline".split()]
        poll(lambda: "home/#" in self.root.run(*show, expect=None), "it has subscribed")
        self.assertIn("no slow clients", self.by("clients", "slow"))
        reader.send_signal(signal.SIGSTOP)
        lines = b"".join(b"%d\n" % n for n in range(MANY))
        self.root.run("holdline", "pub", *by, "loud", "-q", "1", "-t", "home/lamp", "-l",
                      content=lines)
        def slow():
            told = self.by("clients", "slow", "--json").splitlines()
            return [json.loads(line) for line in told if line.startswith("{")]

        poll(lambda: [it["queued"] for it in slow()] == [MANY], "all of it waits for it alone")
        worst, = slow()
        self.assertEqual((worst["client_id"], worst["dropped"]), ("slow", 0))
        self.assertIn(worst["inflight"], range(1, MANY), "it was sent these and took none")
        told = self.root.run(*show)
        self.assertRegex(told, rf"(?m)^ *queued +{worst['queued']} ")
        # It reads again: it has all, in order, and is nobody's trouble any more.
        reader.send_signal(signal.SIGCONT)
        self.assertEqual(reader.communicate(timeout=2 * DEADLINE_S)[0], lines)
        self.assertEqual(reader.returncode, 0)
        poll(lambda: "no slow clients" in self.by("clients", "slow"), "nobody is slow any more")

    def stop(self, server):
        server.terminate()
        self.assertEqual(server.wait(2 * DEADLINE_S), 0, server.told)


if __name__ == "__main__":
    unittest.main()
