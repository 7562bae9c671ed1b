#!/usr/bin/env python3
"""Prints what is compiled into the binary, as CycloneDX 1.5 in JSON.

    packaging/sbom.py VERSION TARGET TREE < the output of `cargo metadata --format-version 1`

Every crate that the package `holdline` is built from for TARGET: name, version, licence, checksum
as in Cargo.lock, and what needs what. TREE is a file with what `cargo tree` says of that package
alone (`name vVERSION` begins each line): the metadata is of the whole workspace, whose tests turn
more features on. The same input gives the same bytes.
"""

import json
import os
import re
import sys
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def checksums(lock):
    """What Cargo.lock says of each crate: {(name, version): SHA-256}."""
    found = {}
    for block in lock.split("[[package]]")[1:]:
        keys = dict(re.findall(r'^(name|version|checksum) = "(.*)"$', block, re.M))
        if "checksum" in keys:
            found[keys["name"], keys["version"]] = keys["checksum"]
    return found


def needed(metadata, root, tree):
    """The ids of all that `root` is built from, of those in the tree, and what each needs."""
    known = {package["id"]: (package["name"], "v" + package["version"])
             for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    edges = {}
    waiting = [root]
    while waiting:
        this = waiting.pop()
        if this in edges:
            continue
        kinds = [(dep["pkg"], [kind["kind"] for kind in dep["dep_kinds"]])
                 for dep in nodes[this]["deps"]]
        edges[this] = sorted(pkg for pkg, of in kinds
                             if known[pkg] in tree and any(kind != "dev" for kind in of))
        waiting += edges[this]
    return edges


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, sums):
    found = {"type": "library", "bom-ref": purl(package), "name": package["name"],
             "version": package["version"], "purl": purl(package)}
    checksum = sums.get((package["name"], package["version"]))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package.get("license"):
        # SPDX has no slash; old manifests write it for "or".
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return found


def bom(metadata, version, target, tree):
    with open(os.path.join(ROOT, "Cargo.lock"), encoding="utf-8") as file:
        lock = file.read()
    packages = {package["id"]: package for package in metadata["packages"]}
    members = set(metadata["workspace_members"])
    root, = (id for id in members if packages[id]["name"] == "holdline")
    edges = needed(metadata, root, tree)
    sums = checksums(lock)
    name = f"pkg:generic/holdline@{version}"
    ref = {id: name if id == root else purl(packages[id]) for id in edges}
    dependencies = [{"ref": ref[id], "dependsOn": sorted(ref[other] for other in edges[id])}
                    for id in edges]
    components = [component(packages[id], sums) for id in edges if id != root]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, name + target + lock)}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": name, "name": "holdline",
                          "version": version,
                          "licenses": [{"expression": packages[root]["license"]}]},
            "properties": [{"name": "target", "value": target}],
        },
        "components": sorted(components, key=lambda found: found["bom-ref"]),
        "dependencies": sorted(dependencies, key=lambda found: found["ref"]),
    }


def main():
    version, target, tree = sys.argv[1:]
    with open(tree, encoding="utf-8") as file:
        tree = {tuple(line.split()[:2]) for line in file if line.strip()}
    json.dump(bom(json.load(sys.stdin), version, target, tree), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
