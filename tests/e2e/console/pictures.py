"""Makes the pictures of README and docs: python3 tests/e2e/console/pictures.py [report], with a built
binary.

A server with devices and clients that have something to do, looked at by an operator, and the report
of a load test (`report`: that alone).
"""

import glob
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import fixture  # pylint: disable=wrong-import-position
from console.desk import Mqtt, Operator  # pylint: disable=wrong-import-position
from im.page import Chromium  # pylint: disable=wrong-import-position

IMAGES = os.path.join(fixture.ROOT, "docs", "images")
# What the console's picture shows: a test compares it with the console.
LABELS = os.path.join(IMAGES, "console-overview.txt")
CROWD_S = 75


def report():
    """The report of clients that connect in steps to a server that takes 1,500 of them."""
    server = fixture.Server({"server": None, "limits": {"connections_max": 1500}})
    chromium = Chromium()
    try:
        url = "mqtt://{}:{}".format(*server.ports["any"])
        # 1: the rule that all of them are held fails, which is what is shown.
        subprocess.run([fixture.BINARY, "load", "link-limit", url, "--step", "400", "--clients",
                        "2000", "--hold", "8s", "--quiet", "--out", server.folder], check=False)
        file, = glob.glob(os.path.join(server.folder, "*", "report.html"))
        page = chromium.page(1280, 1000)
        page.open(f"file://{file}")
        page.picture(os.path.join(IMAGES, "load-report.png"))
    finally:
        chromium.close()
        server.close()


def main():
    os.makedirs(IMAGES, exist_ok=True)
    report()
    if sys.argv[1:] != ["report"]:
        console()


def console():
    server = fixture.Server({"server": None, "limits": {"connections_max": 5000}})
    chromium = Chromium()
    address = "{}:{}".format(*server.ports["any"])
    crowd = [subprocess.Popen(
        [fixture.BINARY, "wrk", url + address + "/", "-t", "1", "-c", count, "-R", rate,
         "-d", f"{CROWD_S}s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for url, count, rate in (("miop://tom:demo@", "600", "300"), ("mqtt://", "400", "250"))]
    try:
        till = Mqtt(server.ports["any"], "till-7")
        till.subscribe("prices/+/today", qos=0)
        till.subscribe("tills/till-7/in", qos=0)
        away = Mqtt(server.ports["any"], "till-8")
        away.subscribe("prices/#")
        away.close()
        wide = Operator(chromium, server, 1280, 800).open().log_in()
        chinese = Operator(chromium, server, 1280, 800).open()
        chinese.page.run("localStorage.setItem('language', 'zh')")
        chinese.open().log_in()
        phone = Operator(chromium, server, 375, 720).open().log_in()
        phone.scheme("dark")
        end = time.monotonic() + CROWD_S - 25
        number = 0
        while time.monotonic() < end:
            number += 1
            till.publish("prices/milk/today", str(number))
            server.push(f"tom-{number % 600}", "hello", ttl_s=60)
            time.sleep(0.05)
        wide.go("overview", "Overview")
        wide.page.picture(os.path.join(IMAGES, "console-overview.png"))
        with open(LABELS, "w", encoding="utf-8") as file:
            file.write(wide.labels())
        chinese.page.picture(os.path.join(IMAGES, "console-overview.zh.png"))
        phone.go("overview", "Overview")
        phone.page.picture(os.path.join(IMAGES, "console-phone.png"))
        wide.go("clients?client_id=till-7", "Clients")
        wide.page.picture(os.path.join(IMAGES, "console-client.png"))
    finally:
        for one in crowd:
            one.terminate()
            one.wait()
        chromium.close()
        server.close()


if __name__ == "__main__":
    main()
