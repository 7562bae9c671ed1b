"""Programs in Kotlin, and the libraries they use, which are built by one test at a time."""

import fcntl
import glob
import os
import shutil
import subprocess
import tempfile

from clients.device import CLIENTS
from im.wire import BUILT

COMPILER = os.path.join(CLIENTS, "miop-kotlin")
HAS_TOOLS = bool(shutil.which("javac") and shutil.which("mvn"))


def compiled(case, library, source):
    """The command that runs a program with a library."""
    folder = os.path.join(BUILT, library)
    program = tempfile.mkdtemp(prefix="holdline-kotlin-")
    case.addCleanup(shutil.rmtree, program)
    path = os.path.join(program, "QuickStart.kt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    os.makedirs(BUILT, exist_ok=True)
    with open(os.path.join(BUILT, "kotlin.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["sh", os.path.join(CLIENTS, library, "build.sh"), folder], check=True)
        shutil.copytree(os.path.join(folder, "classes"), program, dirs_exist_ok=True)
    jars = glob.glob(os.path.join(folder, "lib", "*.jar"))
    libraries = os.pathsep.join([program, *glob.glob(os.path.join(folder, "schema")), *jars])
    subprocess.run(["sh", os.path.join(COMPILER, "compiler.sh"), libraries, program, path],
                   check=True)
    runtime = os.path.join(COMPILER, "build", "compiler", "*")
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join([libraries, runtime]),
            "QuickStartKt"]
