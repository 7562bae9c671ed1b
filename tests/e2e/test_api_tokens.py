"""Tokens of the API and its audit log: over the wire, by the command line, over a kill."""

import http.client
import json
import os
import socket
import unittest

from fixture import Case, run


class Tokens(Case):
    CHANGES = {"api": {"connections_max": 16}}

    def holdline(self, *words, token=None):
        host, port = self.server.ports["api"]
        answer = run(*words, "--url", f"http://{host}:{port}", "--token", token or self.server.token,
                     env={"HTTP_PROXY": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"})
        return answer.returncode, answer.stdout, answer.stderr

    def test_a_token_is_made_used_listed_and_revoked_by_the_command_line(self):
        code, token, error = self.holdline("token", "make", "shop", "--scope", "push,read",
                                           "--product", "demo")
        self.assertEqual(code, 0, error)
        token = token.strip()
        self.assertTrue(token.startswith("hlt_"))
        self.assertEqual(self.server.api("GET", "/v1/devices?product=demo", token=token)[0], 200)
        status, answer = self.server.api("GET", "/v1/clients", token=token)
        self.assertEqual((status, answer["error"]["code"]), (403, "product_forbidden"))
        code, _, error = self.holdline("user", "list", token=token)
        self.assertEqual(code, 1)
        self.assertIn("scope_missing", error)
        code, listed, _ = self.holdline("token", "list")
        self.assertIn("push,read", listed.replace("read,push", "push,read"))
        self.assertNotIn(token, listed)
        self.assertEqual(self.holdline("token", "revoke", "shop")[:2], (0, "shop: revoked\n"))
        status, answer = self.server.api("GET", "/v1/devices?product=demo", token=token)
        self.assertEqual((status, answer["error"]["code"]), (401, "wrong_token"))
        code, told, error = self.holdline("audit-log", "--limit", "200")
        self.assertEqual(code, 0, error)
        self.assertIn("DELETE /v1/tokens/{token}  /v1/tokens/shop", told)

    def test_idle_connections_do_not_close_the_api(self):
        host, port = self.server.ports["api"]
        idle = [socket.create_connection((host, port)) for _ in range(200)]
        caller = http.client.HTTPConnection(host, port, timeout=20)
        caller.request("GET", "/v1/status",
                       headers={"Authorization": f"Bearer {self.server.token}"})
        self.assertEqual(caller.getresponse().status, 200)
        caller.close()
        for stream in idle:
            stream.close()


class OverAKill(Case):
    SHARED = False

    def test_tokens_and_the_audit_log_outlive_a_kill(self):
        server = self.start()
        order = {"name": "ci", "scopes": ["users"]}
        token = server.ask("POST", "/v1/tokens", order)["token"]
        status, _ = server.api("PUT", "/v1/users/ann", {"password": "a password"}, token=token)
        self.assertEqual(status, 200)
        server.kill()
        os.chmod(os.path.join(server.data, "api.token"), 0o644)
        server.start()
        server.logged("other users on this machine can read the API's token")
        entry = server.ask("GET", "/v1/audit_log?limit=1")["entries"][0]
        self.assertEqual((entry["token"], entry["on"], entry["outcome"]),
                         ("ci", "/v1/users/ann", "done"), json.dumps(entry))
        self.assertEqual(server.api("GET", "/v1/users/ann", token=token)[0], 200)
        self.assertEqual(server.ask("DELETE", "/v1/tokens/ci"), {"revoked": True})
        server.kill()
        server.start()
        status, answer = server.api("GET", "/v1/users/ann", token=token)
        self.assertEqual((status, answer["error"]["code"]), (401, "wrong_token"))


if __name__ == "__main__":
    unittest.main()
