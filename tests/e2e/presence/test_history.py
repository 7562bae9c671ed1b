"""The history of presence: `holdline presence history`, over a stop and over a kill."""

import json

from fixture import Case, run


class History(Case):
    SHARED = False

    def told(self, server, *words):
        host, port = server.ports["api"]
        answer = run("presence", "--url", f"http://{host}:{port}", "--token", server.token,
                     "history", *words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def transitions(self, server, *words):
        return json.loads(self.told(server, "--json", *words))["transitions"]

    def test_who_came_and_went_is_known_after_a_stop_and_a_kill(self):
        server = self.start()
        device = self.bound("till-7", server=server)
        self.bound("till-8", server=server)
        port = device.stream.socket.getsockname()[1]
        came, = self.transitions(server, "--product", "demo", "till-7")
        self.assertEqual((came["online"], came["protocol"], came["peer"], came["reason"]),
                         (True, "miop7", f"127.0.0.1:{port}", None))
        self.assertEqual(server.stop(), 0)
        server.start()
        _, went = self.transitions(server, "demo#till-7")
        self.assertEqual((went["online"], went["peer"], went["boot"]),
                         (False, came["peer"], came["boot"]))
        self.assertIn(went["reason"], ("draining", "server_stopped", "closed_clean"))
        self.bound("till-7", version=5, server=server)
        self.assertTrue(self.transitions(server, "demo#till-7")[-1]["online"])
        server.kill()
        server.start()
        self.bound("till-7", server=server)
        all_of_it = self.transitions(server, "demo#till-7")
        self.assertEqual([it["online"] for it in all_of_it], [True, False, True, True])
        self.assertEqual([it["protocol"] for it in all_of_it],
                         ["miop7", "miop7", "miop5", "miop7"])
        versions = [it["version"] for it in all_of_it]
        self.assertEqual(versions, sorted(versions))
        shown = self.told(server, "demo#till-7", "--count", "2").splitlines()
        self.assertEqual([line.split()[0] for line in shown[2:3]], ["--"], shown)
        self.assertEqual(self.transitions(server, "demo#nobody"), [])
        self.assertNotIn("presence_history_lost_total 1", server.metrics())
