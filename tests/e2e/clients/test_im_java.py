"""The Java library of IM: its quick start, against a server that is killed."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from clients.device import CLIENTS
from clients.im_device import ImQuickStart
from im.wire import BUILT

LIBRARY = os.path.join(CLIENTS, "im-java")


def last_of_lines(folder):
    """The place in a store of the library for Java, which is lines of text."""
    try:
        with open(os.path.join(folder, "ann.json"), encoding="ascii") as file:
            found = re.search(r"^last (\d+)$", file.read(), re.M)
    except FileNotFoundError:
        return 0
    return int(found[1]) if found else 0


def built():
    """The class path of the library. It is built in a folder of its own, by one test at a time."""
    folder = os.path.join(BUILT, "im-java")
    os.makedirs(BUILT, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["sh", os.path.join(LIBRARY, "build.sh"), folder], check=True)
        # What another test builds next must not be taken away from this one.
        classes = tempfile.mkdtemp(prefix="holdline-im-java-")
        shutil.copytree(os.path.join(folder, "classes"), classes, dirs_exist_ok=True)
    return os.pathsep.join([os.path.join(folder, "lib", "*"), os.path.join(folder, "schema"),
                            classes]), classes


@unittest.skipUnless(shutil.which("javac") and shutil.which("mvn"), "a JDK or Maven is missing")
class ImJava(ImQuickStart):
    LIBRARY, LANGUAGE = "im-java", "java"

    def command(self, folder, source):
        path = os.path.join(folder, "QuickStart.java")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        library, classes = built()
        self.addCleanup(shutil.rmtree, classes)
        subprocess.run(["javac", "--release", "11", "-cp", library, "-d", folder, path],
                       check=True)
        both = os.pathsep.join([library, folder])
        return ["java", "-XX:TieredStopAtLevel=1", "-cp", both, "QuickStart"], {}

    def last(self):
        return last_of_lines(self.folder)

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
