"""Run in a network namespace of its own: `holdline serve` with nothing, then what it prints.

Usage: unshare -n python3 fresh_machine.py BINARY. Prints one JSON object: the welcome, the printed
commands with their status and output (wrk's numbers made smaller), and the server's end.
"""

import fcntl
import json
import re
import shlex
import socket
import struct
import subprocess
import sys
import tempfile


def loopback_up():
    """A new namespace has a loopback that is down: SIOCGIFFLAGS and SIOCSIFFLAGS with IFF_UP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(link, 0x8913, request))[1]
        fcntl.ioctl(link, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))


def main(binary):
    loopback_up()
    with tempfile.TemporaryDirectory(prefix="holdline-e2e-") as folder:
        server = subprocess.Popen([binary, "serve"], cwd=folder, stdout=subprocess.PIPE, text=True)
        welcome = ""
        for line in server.stdout:
            welcome += line
            if line.startswith("Stop with"):
                break
        commands = []
        for line in re.findall(rf"^  ({re.escape(binary)} .*)$", welcome, re.M):
            line = line.replace("-c 1000 ", "-c 50 ").replace("-d 30s", "-d 1s")
            answer = subprocess.run(shlex.split(line), cwd=folder, capture_output=True, text=True,
                                    timeout=30, check=False)
            commands.append([line, answer.returncode, answer.stdout + answer.stderr])
        server.terminate()
        print(json.dumps({"welcome": welcome, "commands": commands, "end": server.wait(20)}))


main(sys.argv[1])
