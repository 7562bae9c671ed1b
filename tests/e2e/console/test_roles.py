"""People at the console by name and password, each with a role; and the page of the API."""

import json
import os
import signal

import fixture
from console.desk import Consoles, Operator
from fixture import poll

ROLES = {"api": {"address": "127.0.0.1:0", "viewers": ["vera"], "operators": ["otto"],
                 "admins": ["anna"]}}


class Roles(Consoles):
    CHANGES = ROLES

    def setUp(self):
        super().setUp()
        for user in ("vera", "otto", "anna", "paul"):
            self.server.ask("PUT", f"/v1/users/{user}", {"password": f"{user}'s secret"})

    def at_door(self, user, password):
        operator = Operator(self.chromium, self.server).open()
        operator.page.type("#user", user)
        operator.page.type("#token", password)
        operator.page.key("Enter", "#token")
        return operator

    def person(self, user):
        operator = self.at_door(user, f"{user}'s secret")
        operator.page.until("document.getElementById('frame')", f"{user} is logged in")
        return operator

    def call(self, operator, method, path, body=None):
        """What a script of the console is told: status and code."""
        order = json.dumps(json.dumps(body)) if body is not None else "undefined"
        operator.page.run(
            "window.told = null; fetch(%s, { method: %s, body: %s, headers: { 'Holdline-Console': '1' } })"
            ".then(async it => { const body = await it.json(); "
            "window.told = [it.status, body?.error?.message ?? '']; }); 1"
            % (json.dumps(path), json.dumps(method), order))
        operator.page.until("window.told", "an answer")
        return operator.page.run("window.told")

    def test_who_has_no_role_or_another_password_stays_at_the_door(self):
        for user, password in (("paul", "paul's secret"), ("vera", "wrong"), ("nobody", "x")):
            operator = self.at_door(user, password)
            operator.says("Wrong user name or password, or the user has no role.")
        self.assertEqual(self.server.metrics().count("holdline_console_sessions 0\n"), 1)

    def test_a_viewer_sees_every_page_but_that_of_pushing_and_changes_nothing(self):
        self.mqtt("till-1")
        operator = self.person("vera")
        operator.says("viewer: can see everything, can change nothing")
        for route, title in (("clients", "Clients"), ("users", "Users and rules"),
                             ("tokens", "API tokens"), ("audit", "Audit log"),
                             ("configuration", "Configuration"), ("api", "API")):
            operator.go(route, title)
            self.assertEqual(operator.page.run(
                "document.querySelector('#page .fault:not(:empty)')?.textContent ?? ''"), "", route)
        self.assertIsNone(operator.page.run("document.querySelector('a[href=\"#/push\"]')"))
        for method, path, body in (("DELETE", "v1/clients/till-1", None),
                                   ("PUT", "v1/users/eve", {"password": "x"}),
                                   ("POST", "v1/pushes", {"product": "demo", "device": "a", "body": "b"})):
            status, message = self.call(operator, method, path, body)
            self.assertEqual(status, 403, path)
            self.assertIn("vera has the role viewer", message)
        # By the page, as she would: what ends a connection is not offered, a form tells her why.
        operator.go("clients?client_id=till-1", "Clients")
        self.assertIsNone(operator.page.run("document.getElementById('kick')"))
        operator.go("users", "Users and rules")
        operator.fill("input[name=new]", "eve")
        operator.fill("#page input[name=password]", "x")
        operator.submit("input[name=new]")
        operator.says("vera has the role viewer")
        self.assertTrue(self.server.ask("GET", "/v1/clients/till-1")["online"])

    def test_an_operator_ends_pushes_and_traces_and_manages_nobody(self):
        till = self.mqtt("till-1")
        operator = self.person("otto")
        operator.go("trace", "Trace")
        operator.go("push", "Push")
        status, message = self.call(operator, "PUT", "v1/users/eve", {"password": "x"})
        self.assertEqual((status, "otto has the role operator" in message), (403, True))
        self.assertEqual(self.call(operator, "DELETE", "v1/clients/till-1")[0], 200)
        self.assertTrue(till.is_closed())
        self.calm(operator, but=("403",))

    def test_an_admin_may_do_everything_and_a_changed_password_ends_sessions(self):
        admin, viewer = self.person("anna"), self.person("vera")
        self.assertEqual(self.call(admin, "PUT", "v1/users/eve", {"password": "x"})[0], 200)
        viewer.go("clients", "Clients")
        self.assertEqual(self.call(admin, "PUT", "v1/users/vera", {"password": "another"})[0], 200)
        viewer.page.run("location.hash = '#/users'")
        viewer.says("Session ended. Log in again.")
        again = self.at_door("vera", "another")
        again.page.until("document.getElementById('frame')", "she is in again")
        entries = self.server.ask("GET", "/v1/audit_log")["entries"]
        self.assertTrue(any(it["token"] == "anna" and it["action"] == "PUT /v1/users/{user}"
                            for it in entries), entries)


class Reference(Consoles):
    CHANGES = ROLES

    def opened(self, operator, call):
        """The form of a call, after a click on its line."""
        operator.page.until(f"document.getElementById('call-{call}')", f"{call} is described")
        operator.page.run(f"document.querySelector('#call-{call} > summary').click()")
        operator.page.until(f"document.querySelector('#call-{call} form')", "its form")

    def test_every_call_of_the_description_is_there_and_found_by_words(self):
        operator = self.operator().go("api", "API")
        status, told = self.server.api("GET", "/openapi.json")
        self.assertEqual(status, 200)
        wanted = {one["operationId"] for item in told["paths"].values() for one in item.values()
                  if isinstance(one, dict) and "operationId" in one}
        operator.page.until("document.querySelector('.call')", "calls")
        ids = "[...document.querySelectorAll('.call')].map(it => it.id.replace('call-', ''))"
        self.assertEqual(set(operator.page.run(ids)), wanted)
        operator.fill("input[name=filter]", "post kick users")
        seen = "[...document.querySelectorAll('.call')].filter(it => it.checkVisibility()).map(it => it.id)"
        operator.page.until(f"({seen}).join() === 'call-kickUser'", "one is left")
        operator.fill("input[name=filter]", "no such call")
        operator.says("No matches.")
        self.calm(operator)

    def test_a_call_is_tried_with_the_session_and_with_a_token(self):
        self.mqtt("till-1")
        operator = self.operator().go("api", "API")
        self.opened(operator, "getClient")
        operator.fill("#call-getClient input[name=client]", "till-1")
        operator.page.key("Enter", "#call-getClient input[name=client]")
        operator.page.until("document.querySelector('#call-getClient .answer pre')", "an answer")
        shown = operator.page.run("document.querySelector('#call-getClient .answer pre').textContent")
        self.assertEqual(json.loads(shown), self.server.ask("GET", "/v1/clients/till-1"))
        self.assertIn("curl", operator.page.run(
            "document.querySelector('#call-getClient .answer code').textContent"))
        operator.fill("input[name=try-token]", self.token("figures", "metrics"))
        operator.page.run("document.querySelector('#call-getClient form').requestSubmit()")
        operator.page.until("document.querySelector('#call-getClient .answer').innerText.includes('403')",
                            "the token may not")
        self.opened(operator, "overviewStream")
        operator.page.run("document.querySelector('#call-overviewStream form').requestSubmit()")
        operator.page.until("document.querySelector('#call-overviewStream .answer pre')?.textContent"
                            ".includes('event: overview')", "a stream's beginning")
        self.calm(operator, but=("403",))

    def test_an_order_has_its_example_and_is_carried_out(self):
        operator = self.operator().go("api", "API")
        self.opened(operator, "putUser")
        operator.fill("#call-putUser input[name=user]", "zoe")
        operator.fill("#call-putUser textarea", json.dumps({"password": "it's <b>zoe</b>"}))
        operator.page.run("document.querySelector('#call-putUser form').requestSubmit()")
        poll(lambda: self.server.api("GET", "/v1/users/zoe")[0] == 200, "she is there")
        self.assertEqual(operator.page.run("document.querySelector('#page b')"), None)
        self.narrow(self.operator(width=375).go("api", "API"), "the API")
        self.calm(operator)


class Files(Consoles):
    """Roles of users of the password file, and their change while the server runs."""

    def roles(self, **roles):
        return {"access": {"password_file": self.passwords},
                "api": {"address": "127.0.0.1:0", **roles}}

    def setUp(self):
        folder = self.enterContext(fixture.tempfile.TemporaryDirectory())
        self.passwords = os.path.join(folder, "users")
        self.write(fay="pear", gus="plum")
        self.CHANGES = self.roles(viewers=["fay"])
        super().setUp()

    def write(self, **users):
        with open(self.passwords, "w", encoding="utf-8") as file:
            file.writelines(f"{user}:$plain${password}\n" for user, password in users.items())

    def person(self, user, password):
        operator = Operator(self.chromium, self.server).open()
        operator.page.type("#user", user)
        operator.page.type("#token", password)
        operator.page.key("Enter", "#token")
        return operator

    def reload(self, changes):
        self.server.configure(changes)
        self.server.signal(signal.SIGHUP)

    def test_a_user_of_the_file_has_a_role_which_changes_without_a_restart(self):
        fay = self.person("fay", "pear")
        fay.says("viewer: can see everything, can change nothing")
        self.person("gus", "plum").says("Wrong user name or password, or the user has no role.")
        self.reload(self.roles(operators=["fay", "gus"]))
        # She is let out, for she is another one now, and so he comes in.
        fay.says("Session ended. Log in again.")
        self.person("gus", "plum").page.until("document.getElementById('frame')", "he is in")
        again = self.person("fay", "pear")
        again.page.until("document.getElementById('frame')", "she is in again")
        self.assertTrue(again.page.run("!!document.querySelector('a[href=\"#/push\"]')"))
        self.write(fay="apple", gus="plum")
        self.reload(self.roles(operators=["fay", "gus"]))
        again.says("Session ended. Log in again.")
        self.assertNotIn("[restart]", self.server.log)
        self.assertNotIn("this change needs a restart", self.server.log)
