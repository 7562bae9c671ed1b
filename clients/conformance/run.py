#!/usr/bin/env python3
"""Plays the vectors and scenarios against libraries and prints `N passed, N failed` as last line.

Each library in clients/miop-NAME and clients/im-NAME has a file conformance.json: `needs`
(commands; `a|b`: one of them), `build` (commands, run in the library's folder), `run` (the driver)
and `test` (commands: the library's own tests). One that lacks a command is skipped, aloud, and so
is one of which a build ends with 77: it found no compiler, and could fetch none.
"""

import argparse
import contextlib
import glob
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import im_scenarios
import im_server
import im_wire
import scenarios
from im_stage import ImStage
from stage import Certificates, Driver, Failure, Stage

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.path.dirname(HERE)
NO_COMPILER = 77


def libraries():
    """Name and folder of each library: `python` is that of MIOP, `im-python` that of IM."""
    files = [file for kind in ("miop", "im")
             for file in sorted(glob.glob(os.path.join(CLIENTS, f"{kind}-*", "conformance.json")))]
    return {os.path.basename(os.path.dirname(file)).replace("miop-", ""): os.path.dirname(file)
            for file in files}


def vectors(name):
    with open(os.path.join(HERE, "vectors", name), encoding="utf-8") as file:
        return json.load(file)


def equal(one, other):
    if one != other:
        raise Failure(f"{one}\n  is not\n{other}")


def decoded(driver, data, **limit):
    answer = driver.ask("decode", bytes=data, **limit)
    return {name: value for name, value in answer.items() if name != "n"}


def vector_tests(all_vectors):
    """(name, function of a driver) for each vector."""
    for vector in all_vectors["server"]:
        yield f"vector: reads {vector['name']}", lambda driver, it=vector: reads(driver, it)
    for vector in all_vectors["device"]:
        yield f"vector: writes {vector['name']}", lambda driver, it=vector: equal(
            driver.ask("encode", frame=it["frame"])["bytes"], it["bytes"])
    for vector in all_vectors["bad"]:
        if "when" not in vector:
            yield f"vector: refuses {vector['name']}", lambda driver, it=vector: refuses(driver, it)
    for vector in all_vectors["incomplete"]:
        yield f"vector: waits for more after {vector['name']}", lambda driver, it=vector: equal(
            decoded(driver, it["bytes"]), {"more": True})
    for vector in all_vectors["macs"]:
        parts = {name: value for name, value in vector.items()
                 if name not in ("name", "section", "mac")}
        yield f"vector: signs {vector['name']}", lambda driver, it=vector, parts=parts: equal(
            driver.ask("mac", **parts)["mac"], it["mac"])


def reads(driver, vector):
    data = bytes.fromhex(vector["bytes"])
    equal(decoded(driver, vector["bytes"] + "0007"),
          {"frame": vector["frame"], "length": len(data)})
    for at in range(len(data)):
        equal(decoded(driver, data[:at].hex()), {"more": True})


def refuses(driver, vector):
    limit = {key: vector[key] for key in ("frame_bytes_max",) if key in vector}
    equal(decoded(driver, vector["bytes"], **limit), {"fault": vector["fault"]})


def im_vector_tests(all_vectors):
    """(name, function of a driver) for each vector of IM."""
    for vector in all_vectors["server"] + all_vectors["skipped"]:
        yield f"vector: reads {vector['name']}", lambda driver, it=vector: im_reads(driver, it)
    for vector in all_vectors["bad"]:
        yield f"vector: refuses {vector['name']}", lambda driver, it=vector: refuses(driver, it)
    for vector in all_vectors["incomplete"]:
        yield f"vector: waits for more after {vector['name']}", lambda driver, it=vector: equal(
            decoded(driver, it["bytes"]), {"more": True})
    for vector in all_vectors["proofs"]:
        asked = {name: vector[name] for name in vector
                 if name not in ("name", "section", "first", "answer", "proof")}
        told = {name: vector[name] for name in ("first", "answer", "proof") if name in vector}
        yield f"vector: proves {vector['name']}", lambda driver, asked=asked, told=told: equal(
            {name: it for name, it in driver.ask("prove", **asked).items() if name != "n"}, told)


def has_todays_schema(driver):
    """What was generated from im.proto is of the im.proto that is here."""
    equal(driver.ask("schema")["fields"],
          {f"{kind}.{field.name}": field.number for kind, fields in im_wire.MESSAGES.items()
           for field in fields.values()})


def im_reads(driver, vector):
    """A library that can write ProtoJSON shows the whole frame, one that knows changes of groups
    those that a message announces, others what the frame answers."""
    data = bytes.fromhex(vector["bytes"])
    found = decoded(driver, vector["bytes"] + "02")
    json_of_frame = found.pop("json", None)
    if json_of_frame is not None and "json" in vector:
        equal(json_of_frame, vector["json"])
    changes = found.pop("changes", None)
    if changes is not None:
        equal(changes, vector.get("changes"))
    equal(found, {"answer": vector.get("answer"), "length": len(data)})
    for at in range(len(data)):
        equal(decoded(driver, data[:at].hex()), {"more": True})


def scenario_tests(module, features):
    """(name, function of a stage) for each scenario that the library can play."""
    needs = {function: feature.split("+") for feature, functions in module.NEEDS.items()
             for function in functions}
    for name, function in vars(module).items():
        if name.startswith("_") or not inspect.isfunction(function) \
                or list(inspect.signature(function).parameters) != ["stage"]:
            continue
        if all(feature in features for feature in needs.get(function, ())):
            yield name, function


class Run:
    """The tests of one library."""

    def __init__(self, name, folder, word, certificates, real):
        self.name, self.folder, self.word, self.real = name, folder, word, real
        self.is_im = name.startswith("im-")
        self.certificates = certificates
        with open(os.path.join(folder, "conformance.json"), encoding="utf-8") as file:
            self.how = json.load(file)
        self.passed = self.failed = 0
        self.driver = None

    def missing(self):
        return [command for command in self.how["needs"]
                if not any(shutil.which(it) for it in command.split("|"))]

    def start(self):
        self.driver = Driver(self.how["run"], self.folder)

    def all(self):
        for command in self.how.get("build", []):
            status = subprocess.run(command, cwd=self.folder, stdout=sys.stderr).returncode
            if status == NO_COMPILER:
                print(f"SKIPPED {self.name}: there is no compiler, and none could be fetched")
                return
            if status:
                return self.fail("it is built", f"{command} failed")
        try:
            self.start()
        except (Failure, OSError) as failure:
            return self.fail("its driver starts", str(failure))
        known = vectors("im1.json" if self.is_im else "miop7.json")
        for name, function in (im_vector_tests if self.is_im else vector_tests)(known):
            self.one(name, lambda it=function: it(self.driver))
        module = im_scenarios if self.is_im else scenarios
        for name, function in scenario_tests(module, self.driver.features):
            self.one(name, lambda it=function: self.play(it, known))
        if "schema" in self.driver.features:
            self.one("schema: it is generated from im.proto",
                     lambda: has_todays_schema(self.driver))
        if self.is_im and self.real:
            for name, function in scenario_tests(im_server, self.driver.features):
                self.one(f"server: {name}", lambda it=function: self.play(it, known))
        self.driver.close()
        for command in self.how.get("test", []):
            self.own(command)

    def play(self, function, known):
        stage = (ImStage if self.is_im else Stage)(self.driver, self.certificates)
        stage.vectors, stage.real = known, self.real
        try:
            function(stage)
        finally:
            stage.close()

    def own(self, command):
        """The library's own tests: one of this suite's."""
        name = f"its own tests: {' '.join(command)}"
        if self.word not in name:
            return
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            self.fail(name, done.stdout)
        else:
            self.passed += 1

    def one(self, name, function):
        if self.word not in name:
            return
        try:
            function()
            self.passed += 1
        except Exception as failure:  # a library must not end the suite
            place = "".join(traceback.format_tb(failure.__traceback__, 3)[-2:])
            self.fail(name, f"{place}{type(failure).__name__}: {failure}")
            # What is left of a failed one must not fail the next ones.
            self.driver.process.kill()
            self.driver.close()
            self.start()

    def fail(self, name, why):
        self.failed += 1
        print(f"FAIL: {self.name}: {name.replace('_', ' ')}\n{why}\n", flush=True)


def main():
    known = libraries()
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="LIBRARY", help=", ".join(known))
    parser.add_argument("--server", metavar="BINARY", help="plays libraries of IM against this "
                        "`holdline`, too")
    parser.add_argument("-k", default="", metavar="WORD", help="only tests that contain it")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"unknown library {unknown[0]}; known are {', '.join(known)}")
    passed = failed = 0
    with contextlib.ExitStack() as exits:
        folder = tempfile.TemporaryDirectory(prefix="holdline-conformance-")
        certificates = Certificates(exits.enter_context(folder))
        real = exits.enter_context(im_server.running(arguments.server, certificates))
        for name in arguments.names or known:
            run, began = Run(name, known[name], arguments.k, certificates, real), \
                time.monotonic()
            if run.missing():
                print(f"SKIPPED {name}: {', '.join(run.missing())} is not installed")
                continue
            run.all()
            took = time.monotonic() - began
            print(f"{name}: {run.passed} passed, {run.failed} failed in {took:.1f} s", flush=True)
            passed, failed = passed + run.passed, failed + run.failed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
