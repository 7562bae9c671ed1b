"""The manifests for Kubernetes: of its own schemas, with a configuration that the server takes, and
ports, probes and times that belong together.

No cluster runs here: what a kubelet makes of them was not tried.
"""

import os
import re
import sys
import unittest

import fixture
from fixture import run

FOLDER = os.path.join(fixture.ROOT, "packaging", "kubernetes")
BUILT = os.environ.get("HOLDLINE_E2E_CLIENTS") or os.path.join(fixture.TARGET, "e2e-clients")
VERSIONS = ("1.30", "1.34")


def schemas():
    """PyYAML and kubernetes-validate, which has the schemas of Kubernetes in it."""
    sys.path.insert(0, os.path.join(BUILT, "schemathesis"))
    try:
        import kubernetes_validate
        import yaml
    except ImportError as error:
        raise unittest.SkipTest(f"{error}: NO MANIFEST WAS LOOKED AT") from None
    return yaml, kubernetes_validate


class Reader(unittest.TestCase):
    """Reads manifests, and holds them to the schemas and the server."""

    FILES = ()

    def setUp(self):
        self.yaml, self.validator = schemas()
        self.all = [manifest for path in self.FILES for manifest in self.read(*path)]

    def read(self, *path):
        with open(os.path.join(FOLDER, *path), encoding="utf-8") as file:
            return list(self.yaml.safe_load_all(file))

    def one(self, kind, name="holdline"):
        found, = [it for it in self.all if (it["kind"], it["metadata"]["name"]) == (kind, name)]
        return found

    def validates(self, manifests):
        for version in VERSIONS:
            for manifest in manifests:
                with self.subTest(f"{manifest['kind']} in {version}"):
                    self.validator.validate(manifest, version, strict=True)

    def checked(self):
        """The configuration, and what `holdline check` says of it."""
        text = self.one("ConfigMap")["data"]["holdline.toml"]
        folder = self.enterContext(fixture.tempfile.TemporaryDirectory())
        path = os.path.join(folder, "holdline.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        told = run("check", "--config", path)
        self.assertEqual(told.returncode, 0, told.stderr)
        return text, told.stdout


class Manifests(Reader):
    FILES = (("holdline.yaml",),)

    def pod(self):
        return self.one("StatefulSet")["spec"]["template"]["spec"]

    def container(self):
        container, = self.pod()["containers"]
        return container

    def patched(self):
        """The set with the patch of `sysctls`, as kustomize merges it."""
        def merged(base, patch):
            if not isinstance(base, dict) or not isinstance(patch, dict):
                return patch
            return {**base, **{key: merged(base.get(key), value) for key, value in patch.items()}}
        patch, = self.read("sysctls", "pod.yaml")
        return merged(self.one("StatefulSet"), patch)

    def test_they_are_of_the_schemas_of_kubernetes(self):
        self.validates([*self.all, self.patched()])

    def test_a_word_that_is_none_would_be_noticed(self):
        wrong = self.one("StatefulSet")
        wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
        with self.assertRaises(self.validator.ValidationError):
            self.validator.validate(wrong, VERSIONS[0], strict=True)

    def test_the_server_takes_the_configuration(self):
        text, printed = self.checked()
        # The ports are those of the container, and each that is served outside is a listener's.
        listens = set(map(int, re.findall(r'address = "0\.0\.0\.0:(\d+)"', text)))
        ports = {port["name"]: port["containerPort"] for port in self.container()["ports"]}
        self.assertEqual(set(ports.values()), listens)
        for service in ("holdline", "holdline-api"):
            for port in self.one("Service", service)["spec"]["ports"]:
                self.assertIn(port["targetPort"], ports)
        # A pod is not killed before it has let everybody go.
        drain_ms = int(re.search(r"drain_ms = (\d+)", printed).group(1))
        grace_s = self.pod()["terminationGracePeriodSeconds"]
        self.assertGreater(grace_s, drain_ms / 1000 + 10)

    def test_it_is_ready_by_one_probe_and_alive_by_another(self):
        paths = {kind: self.container()[kind]["httpGet"]
                 for kind in ("readinessProbe", "livenessProbe", "startupProbe")}
        self.assertEqual({kind: probe["path"] for kind, probe in paths.items()},
                         {"readinessProbe": "/readyz/connections", "livenessProbe": "/healthz",
                          "startupProbe": "/healthz"})
        self.assertEqual({probe["port"] for probe in paths.values()}, {"api"})

    def test_what_is_durable_is_on_the_volume_and_there_is_one_writer(self):
        kept = self.one("StatefulSet")["spec"]
        self.assertEqual(kept["replicas"], 1)
        claim, = kept["volumeClaimTemplates"]
        mounts = {it["name"]: it["mountPath"] for it in self.container()["volumeMounts"]}
        text = self.one("ConfigMap")["data"]["holdline.toml"]
        self.assertIn(f'data = "{mounts[claim["metadata"]["name"]]}"', text)
        self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOnce"])

    def test_settings_of_the_kernel_are_those_of_the_package(self):
        with open(os.path.join(fixture.ROOT, "packaging", "sysctl.conf"), encoding="utf-8") as file:
            packaged = dict(re.findall(r"^([\w.]+) *= *(.+)$", file.read(), re.M))
        pod = self.patched()["spec"]["template"]["spec"]
        self.assertEqual(pod["securityContext"]["runAsUser"], 65532, "the patch adds, alone")
        for setting in pod["securityContext"]["sysctls"]:
            with self.subTest(setting["name"]):
                self.assertEqual(setting["value"].split(), packaged[setting["name"]].split())
        resources = self.read("sysctls", "kustomization.yaml")[0]
        self.assertEqual((resources["resources"], resources["patches"]),
                         ([".."], [{"path": "pod.yaml"}]))
        self.assertEqual(self.read("kustomization.yaml")[0]["resources"], ["holdline.yaml"])


class Cluster(Reader):
    """Three NATS servers and two nodes: no cluster of Kubernetes was at hand to run them."""

    FILES = (("cluster", "nats.yaml"), ("cluster", "holdline.yaml"))

    def test_they_are_of_the_schemas_of_kubernetes(self):
        self.validates(self.all)

    def test_the_server_takes_the_configuration_and_knows_the_nats_servers(self):
        text, _ = self.checked()
        nats = self.one("StatefulSet", "holdline-nats")["spec"]
        pods = [f"nats://holdline-nats-{pod}.{nats['serviceName']}:4222"
                for pod in range(nats["replicas"])]
        self.assertEqual(re.findall(r'"(nats://[^"]+)"', text), pods)

    def test_the_pod_that_leads_is_the_one_that_is_ready(self):
        nodes = self.one("StatefulSet")["spec"]
        self.assertEqual((nodes["replicas"], nodes["updateStrategy"]), (2, {"type": "OnDelete"}))
        pod = nodes["template"]["spec"]
        container, = pod["containers"]
        self.assertEqual(container["readinessProbe"]["httpGet"]["path"], "/readyz?lead")
        join, = pod["initContainers"]
        told = run(*join["args"][:2], "--help")
        for word in filter(lambda word: word.startswith("--"), join["args"]):
            self.assertIn(word, told.stdout)
