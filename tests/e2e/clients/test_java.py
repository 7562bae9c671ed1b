"""The Java library of MIOP 7: its quick start, against a server that is killed."""

import glob
import os
import shutil
import subprocess
import unittest

from clients.device import CLIENTS, QuickStart


@unittest.skipUnless(shutil.which("javac"), "a JDK is not installed")
class Java(QuickStart):
    LIBRARY, LANGUAGE = "miop-java", "java"

    def command(self, folder, source):
        path = os.path.join(folder, "QuickStart.java")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        library = glob.glob(os.path.join(CLIENTS, self.LIBRARY, "src/main/java/**/*.java"),
                            recursive=True)
        subprocess.run(["javac", "--release", "11", "-d", folder, path, *library], check=True)
        return ["java", "-XX:TieredStopAtLevel=1", "-cp", folder, "QuickStart"], {}

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
