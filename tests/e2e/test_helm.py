"""The chart: helm has no word to say of it, it comes to the manifests of packaging/kubernetes, and
whatever it is told stays within the schemas of Kubernetes and the server's configuration.

No cluster runs here: nothing was installed by it.
"""

import os
import shutil
import subprocess
import unittest

import fixture
from fixture import run
from mqtt.drivers import BUILT
from test_kubernetes import FOLDER, VERSIONS, schemas

CHART = os.path.join(fixture.ROOT, "packaging", "helm", "holdline")
TOOL = shutil.which("helm") or os.path.join(BUILT, "helm", "helm")

MORE = """
image: {repository: images.example/holdline, tag: "1.2", pullSecrets: [key]}
configuration: |
  [server]
  data = "/var/lib/holdline"
  [listen.secure]
  address = "0.0.0.0:8883"
  protocol = "mqtt"
  tls = true
  [tls]
  certificate = "/etc/holdline-tls/tls.crt"
  key = "/etc/holdline-tls/tls.key"
  [api]
  address = "0.0.0.0:9000"
restartOnChange: false
ports: [{name: secure, port: 8883}]
apiPort: 9000
service: {type: NodePort, externalTrafficPolicy: Cluster, annotations: {a: b}}
storage: {size: 1Ti, className: fast}
tls: {secretName: certificate}
apiToken: {secretName: token, key: first}
sysctls: [{name: net.core.somaxconn, value: "65535"}]
nodeSelector: {disk: local}
tolerations: [{key: a, operator: Exists}]
affinity: {}
"""


def helm(*words):
    return subprocess.run([TOOL, *words], capture_output=True, text=True, check=False,
                          env={**os.environ, "HELM_PLUGINS": "/nowhere"}, timeout=120)


@unittest.skipUnless(os.access(TOOL, os.X_OK),
                     "helm could not be built: THE CHART WAS NOT RENDERED")
class Chart(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.yaml, self.validator = schemas()
        self.folder = self.enterContext(fixture.tempfile.TemporaryDirectory())

    def rendered(self, values="", *words):
        path = os.path.join(self.folder, "values.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(values)
        told = helm("template", "holdline", CHART, "--values", path, *words)
        self.assertEqual(told.returncode, 0, told.stderr)
        return [it for it in self.yaml.safe_load_all(told.stdout) if it]

    @staticmethod
    def one(manifests, kind, name="holdline"):
        found, = [it for it in manifests if (it["kind"], it["metadata"]["name"]) == (kind, name)]
        return found

    def test_a_cluster_is_of_the_schemas_and_is_ready_where_it_leads(self):
        wanted = "cluster: {enabled: true, replicas: 3, secretName: shared}"
        manifests = self.rendered(wanted)
        for manifest in manifests:
            self.validator.validate(manifest, VERSIONS[0], strict=True)
        nodes = self.one(manifests, "StatefulSet")["spec"]
        self.assertEqual(nodes["replicas"], 3)
        pod = nodes["template"]["spec"]
        self.assertEqual(pod["containers"][0]["readinessProbe"]["httpGet"]["path"], "/readyz?lead")
        self.assertEqual(pod["initContainers"][0]["args"][:2], ["cluster", "join"])
        told = helm("template", "holdline", CHART, "--set", "cluster.enabled=true")
        self.assertIn("cluster.secretName", told.stderr)

    def test_helm_finds_nothing_in_it(self):
        told = helm("lint", "--strict", CHART)
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        self.assertIn("0 chart(s) failed", told.stdout)
        self.assertNotIn("[WARNING]", told.stdout)

    def test_by_itself_it_is_the_manifests(self):
        with open(os.path.join(FOLDER, "holdline.yaml"), encoding="utf-8") as file:
            plain = list(self.yaml.safe_load_all(file))
        made = self.rendered()
        template = self.one(made, "StatefulSet")["spec"]["template"]
        # What a chart says of itself, and the word by which a change begins a new pod.
        template["metadata"].pop("annotations")
        template["spec"]["containers"][0].pop("imagePullPolicy")
        for it in made:
            it["metadata"]["labels"].pop("helm.sh/chart")
            it["metadata"]["labels"].pop("app.kubernetes.io/managed-by")

        def by_name(manifests):
            return {(it["kind"], it["metadata"]["name"]): it for it in manifests}
        self.assertEqual(by_name(made), by_name(plain))

    def test_whatever_it_is_told_stays_within_the_schemas(self):
        for values in ("", MORE):
            for manifest in self.rendered(values):
                for version in VERSIONS:
                    with self.subTest(f"{manifest['kind']} in {version}"):
                        self.validator.validate(manifest, version, strict=True)

    def test_secrets_storage_and_ports_are_where_they_belong(self):
        made = self.rendered(MORE)
        spec = self.one(made, "StatefulSet")["spec"]
        pod = spec["template"]["spec"]
        container, = pod["containers"]
        self.assertEqual(container["image"], "images.example/holdline:1.2")
        self.assertNotIn("annotations", spec["template"]["metadata"])
        self.assertEqual(container["env"][0]["valueFrom"]["secretKeyRef"],
                         {"name": "token", "key": "first"})
        mounts = {it["name"]: it["mountPath"] for it in container["volumeMounts"]}
        self.assertEqual(mounts["tls"], "/etc/holdline-tls")
        self.assertEqual({it["name"]: it["containerPort"] for it in container["ports"]},
                         {"secure": 8883, "api": 9000})
        self.assertEqual(pod["securityContext"]["sysctls"][0]["name"], "net.core.somaxconn")
        claim, = spec["volumeClaimTemplates"]
        self.assertEqual((claim["spec"]["storageClassName"],
                          claim["spec"]["resources"]["requests"]["storage"]), ("fast", "1Ti"))

    def test_a_change_of_the_configuration_begins_a_new_pod(self):
        def word(values):
            template = self.one(self.rendered(values), "StatefulSet")["spec"]["template"]
            return template["metadata"]["annotations"]["checksum/configuration"]
        self.assertEqual(word(""), word("apiPort: 7080"))
        self.assertNotEqual(word(""), word("configuration: other"))

    def test_the_server_takes_the_configuration(self):
        path = os.path.join(self.folder, "holdline.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.one(self.rendered(), "ConfigMap")["data"]["holdline.toml"])
        told = run("check", "--config", path)
        self.assertEqual(told.returncode, 0, told.stderr)

    def test_a_value_that_is_none_is_refused(self):
        for wrong in ("ports: []", "replicas: 2", "service: {type: Balancer}", "apiPort: none",
                      "storage: {sise: 1Gi}"):
            path = os.path.join(self.folder, "wrong.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(wrong)
            told = helm("template", "holdline", CHART, "--values", path)
            self.assertNotEqual(told.returncode, 0, wrong)
