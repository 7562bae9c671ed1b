"""Runs the tests beside and below this file and prints `N passed, N failed` as the last line.

A skipped test is neither, and is named again at the end, aloud. `--jobs N` (two a core) spreads the
classes of tests over processes: most of the time of most tests is spent waiting.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))


def classes(suite):
    """The names of the classes of tests in a suite, in order."""
    names = []
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            names += classes(test)
        else:
            name = test.id().rsplit(".", 1)[0]
            if isinstance(test, unittest.loader._FailedTest):
                raise SystemExit(f"{test.id()} cannot be loaded: {test._exception}")
            names.append(name)
    return list(dict.fromkeys(names))


def one(names):
    """Runs these tests in this process; the last line is for the process above."""
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = {whole(test) for test, _ in result.failures + result.errors}
    failed |= {whole(test) for test in result.unexpectedSuccesses}
    for test, why in result.skipped:
        print(f"SKIPPED {test.id()}: {why}")
    others = failed | {whole(test) for test, _ in result.skipped}
    print(f"{max(0, result.testsRun - len(others))} passed, {len(failed)} failed", flush=True)


def whole(test):
    """The name of a test, which may have failed in several of its parts."""
    return getattr(test, "test_case", test).id()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    arguments.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("names", nargs="*")
    arguments = arguments.parse_args()
    os.chdir(FOLDER)
    sys.path.insert(0, FOLDER)
    if arguments.one:
        return one(arguments.names)
    wanted = arguments.names or classes(unittest.defaultTestLoader.discover(FOLDER))
    return together(wanted, arguments.jobs)


def together(wanted, jobs):
    """Runs each of these in a process of its own, so many at a time."""
    began, running, done = time.monotonic(), [], []
    waiting = list(wanted)
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            log = tempfile.TemporaryFile()
            process = subprocess.Popen([sys.executable, __file__, "--one", name],
                                       stdout=log, stderr=subprocess.STDOUT)
            running.append((name, process, log))
        name, _, log = first_ended(running)
        log.seek(0)
        text = log.read().decode(errors="replace")
        log.close()
        sys.stdout.write(text)
        sys.stdout.flush()
        done.append((name, text))
    passed = failed = 0
    skipped = []
    for name, text in done:
        lines = text.strip().splitlines() or [""]
        counts = lines[-1].split()
        if len(counts) == 4 and counts[1] == "passed,":
            passed, failed = passed + int(counts[0]), failed + int(counts[2])
        else:
            print(f"{name} ended without its counts")
            failed += 1
        skipped += [line for line in lines if line.startswith("SKIPPED ")]
    print("\n".join(skipped + [f"took {time.monotonic() - began:.0f} s"]))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def first_ended(running):
    """Takes one that has ended out of those that run."""
    while True:
        for each in running:
            if each[1].poll() is not None:
                running.remove(each)
                return each
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
