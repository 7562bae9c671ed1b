"""Two builds of the server in turns: whether a change costs CPU or memory.

    python3 bench/turns.py COMMIT=BINARY COMMIT=BINARY [--scenario mqtt-shapes] [--turns 12] [--out FILE]

Runs the scenario's short form (`bench run NAME --quick`) once with each binary a turn; which one is
first alternates, and the first turn warms up. A figure of Holdline's is compared within its turn:
the result has the median of these ratios (1.02: two percent more than before) and the range of the
middle half of them, which shows how far this machine's noise reaches.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
QUICK = os.path.join(ROOT, "target", "bench-quick")
SCENARIO_S = 1_200


def measured(bench, scenario, binary):
    """Holdline's figures in one short run, by name."""
    began = time.time()
    run = subprocess.run([bench, "run", scenario, "--quick"], cwd=ROOT, capture_output=True,
                         text=True, timeout=SCENARIO_S, check=False,
                         env={**os.environ, "HOLDLINE_BIN": os.path.abspath(binary)})
    if run.returncode:
        sys.exit(f"{binary}: {scenario} failed:\n{run.stderr[-2000:]}")
    stored = [os.path.join(QUICK, name) for name in os.listdir(QUICK)
              if name.endswith(f"-{scenario}.json")]
    stored = [path for path in stored if os.path.getmtime(path) >= began]
    if len(stored) != 1:
        sys.exit(f"{QUICK} has {len(stored)} new results of {scenario}, not one")
    with open(stored[0], encoding="utf-8") as file:
        figures = json.load(file)["figures"]
    ours = (it for it in figures if it["name"].endswith(": holdline") and it["value"] > 0)
    return {it["name"].removesuffix(": holdline"): it["value"] for it in ours}


def build(text):
    """A build as it is given: its commit, and its binary."""
    commit, _, binary = text.partition("=")
    if not os.access(binary, os.X_OK):
        raise argparse.ArgumentTypeError(f"{text}: expected COMMIT=BINARY")
    return commit, binary


def machine():
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = int(re.search(r"MemTotal:\s+(\d+)", file.read())[1]) // 1024
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = re.search(r"model name\s*: (.*)|$", file.read())[1]
    return {"cores": os.cpu_count(), "cpu": cpu, "kernel": platform.release(), "memory_mb": memory}


def loadavg():
    with open("/proc/loadavg", encoding="utf-8") as file:
        return float(file.read().split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=build, help="the build before: COMMIT=BINARY")
    parser.add_argument("after", type=build, help="the build with the change")
    parser.add_argument("--scenario", default="mqtt-shapes")
    parser.add_argument("--turns", type=int, default=12, help="behind the one that warms up")
    parser.add_argument("--bench", default=os.path.join(ROOT, "target", "release", "bench"))
    parser.add_argument("--out", help="where the result is stored, as JSON")
    options = parser.parse_args()
    began, load, turns = time.time(), loadavg(), []
    for turn in range(options.turns + 1):
        order = ("before", "after") if turn % 2 else ("after", "before")
        got = {which: measured(options.bench, options.scenario, getattr(options, which)[1])
               for which in order}
        if turn:
            turns.append(got)
        print(f"turn {turn} of {options.turns}", flush=True)
    figures = []
    for name in turns[0]["before"]:
        ratios = [turn["after"][name] / turn["before"][name] for turn in turns]
        low, middle, high = statistics.quantiles(ratios, n=4)
        for what, value in (("", middle), (", lower quartile", low), (", upper quartile", high)):
            figures.append({"name": f"{name}: after to before{what}", "unit": "times",
                            "value": round(value, 4)})
        print(f"  {name}: {middle:.3f} ({low:.3f} to {high:.3f})")
    medians = [it["value"] for it in figures if it["name"].endswith("before")]
    figures.append({"name": "all figures: after to before, geometric mean", "unit": "times",
                    "value": round(statistics.geometric_mean(medians), 4)})
    print(f"  all: {figures[-1]['value']}")
    if not options.out:
        return
    commit = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.strip()
    result = {"scenario": f"turns-{options.scenario}", "seconds": round(time.time() - began),
              "began": time.strftime("%H:%M", time.gmtime(began)),
              "date": time.strftime("%Y-%m-%d", time.gmtime(began)), "commit": commit,
              "machine": machine(), "load": {"before": load, "after": loadavg()},
              "plan": {"plan": "turns", "scenario": options.scenario, "turns": options.turns,
                       "before": options.before[0], "after": options.after[0]},
              "details": {"turns": turns}, "figures": figures}
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
