"""The chat page in headless Chromium, and its library in Node, with a running server."""

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile

import fixture
from certificates import Authority
from fixture import DEADLINE_S, Case
from im.page import CONTRAST, PAGE, ROWS, PageCase

PUBLIC = os.path.join(fixture.ROOT, "clients", "chat-page", "public")
SCRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scram.mjs")


TOKEN_KEPT = "/\"token\":/.test(sessionStorage.getItem('holdline-chat:login'))"


def user(server, name, password):
    status, answer = server.api("PUT", f"/v1/users/{name}", {"password": password})
    assert status in (200, 201, 204), answer


class Files(Case):
    CHANGES = PAGE

    def ask(self, path, method="GET", **headers):
        link = http.client.HTTPConnection(*self.server.ports["im-ws"], timeout=DEADLINE_S)
        self.addCleanup(link.close)
        link.request(method, path, headers=headers)
        answer = link.getresponse()
        return answer.status, answer.headers, answer.read()

    def test_every_file_of_the_page_is_given_and_asked_for_again_by_its_tag(self):
        for path in ("/chat", "/chat/", "/chat?from=here"):
            status, headers, body = self.ask(path)
            self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
            self.assertIn(b"Holdline", body)
        for folder, _, names in os.walk(os.path.join(PUBLIC, "chat")):
            for name in names:
                file = os.path.join(folder, name)
                path = "/" + os.path.relpath(file, PUBLIC)
                with open(file, "rb") as there:
                    expected = there.read()
                status, headers, body = self.ask(path)
                self.assertEqual((status, body), (200, expected), path)
                self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
                self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
                tag = {"If-None-Match": headers["ETag"]}
                status, _, body = self.ask(path, **tag)
                self.assertEqual((status, body), (304, b""), path)
                status, headers, body = self.ask(path, "HEAD")
                self.assertEqual((status, int(headers["Content-Length"]), body),
                                 (200, len(expected), b""))

    def test_other_methods_and_paths_are_refused(self):
        status, headers, _ = self.ask("/chat", "POST")
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
        for path in ("/", "/chat/none.js", "/chat/../chat", "/im/chat"):
            self.assertEqual(self.ask(path)[0], 404, path)
        self.assertEqual(self.ask("/im")[0], 426)

    def test_who_has_a_file_is_counted_as_gone_by_its_own_will(self):
        with self.server.closes(peer_closed=1):
            link = http.client.HTTPConnection(*self.server.ports["im-ws"], timeout=DEADLINE_S)
            link.request("GET", "/chat")
            link.getresponse().read()
            link.close()


class Switch(Case):
    SHARED = False

    def test_the_page_can_be_left_out_and_is_told_of_where_it_is(self):
        server = self.start(PAGE)
        self.assertRegex(server.welcome, r"http://127\.0\.0\.1:\d+/chat\n")
        server = self.start({**PAGE, "chat": {"page": False}})
        self.assertNotIn("/chat\n", server.welcome)
        link = http.client.HTTPConnection(*server.ports["im-ws"], timeout=DEADLINE_S)
        self.addCleanup(link.close)
        link.request("GET", "/chat")
        self.assertEqual(link.getresponse().status, 404)


class Edges(Case):
    SHARED = False

    def test_the_page_comes_by_tls_too(self):
        folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        authority = Authority(folder)
        certificate, key = authority.issue("localhost", "IP:127.0.0.1")
        server = self.start({
            "listen.im-ws": {**PAGE["listen.im-ws"], "tls": True},
            "tls": {"certificate": certificate, "key": key}})
        self.assertNotIn("/chat\n", server.welcome, "browsers do not know this authority")
        context = ssl.create_default_context(cafile=authority.certificate)
        largest = os.path.join(PUBLIC, "chat", "im", "machine.js")
        for path, file in (("/chat", "chat.html"), ("/chat/im/machine.js", largest)):
            link = http.client.HTTPSConnection(*server.ports["im-ws"], timeout=DEADLINE_S,
                                               context=context)
            self.addCleanup(link.close)
            link.request("GET", path)
            with open(os.path.join(PUBLIC, file), "rb") as there:
                self.assertEqual(link.getresponse().read(), there.read())

    def test_who_does_not_close_is_closed_in_time_and_one_connection_is_one_file(self):
        server = self.start({**PAGE, "limits": {"bind_ms_max": 1000}})
        request = b"GET /chat HTTP/1.1\r\nHost: h\r\n\r\n"
        with server.closes(handshake_timeout=1):
            link = socket.create_connection(server.ports["im-ws"], timeout=DEADLINE_S)
            self.addCleanup(link.close)
            link.sendall(request * 100 + b"x" * 100_000)
            said = b"".join(iter(lambda: link.recv(1 << 16), b""))
        self.assertEqual(said.count(b"HTTP/1.1 200 OK"), 1)
        self.assertTrue(said.rstrip().endswith(b"</html>"))


class Library(Case):
    CHANGES = PAGE

    def test_the_library_proves_a_password_to_the_server_and_the_server_itself(self):
        node = shutil.which("node")
        if not node:
            self.skipTest("node could not be installed: THE LIBRARY WAS NOT TRIED")
        user(self.server, "ann", "pencil")
        url = "ws://{}:{}/im".format(*self.server.ports["im-ws"])
        done = subprocess.run([node, SCRAM, os.path.join(PUBLIC, "chat", "im"), url],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(json.loads(done.stdout), {
            "right": "ann@localhost", "plain": "ann@localhost", "wrong": "bad_credentials",
            "nobody": "bad_credentials", "methods": ["SCRAM-SHA-256", "SCRAM-SHA-256"]})


class Browsers(PageCase):
    def calm_but_for(self, page, pattern):
        self.assertEqual([it for it in page.errors if not re.search(pattern, it)], [])

    def test_two_people_talk_and_find_it_again_after_a_reload(self):
        ann, bob = self.person("ann"), self.person("Bob ")
        ann.write_to("bob")
        ann.say("Hello, Bob ✓ <b>&amp;")
        bob.until("document.querySelector('#people .unread')", "Bob is told of it")
        self.assertTrue(bob.run("document.title").startswith("(1) "))
        bob.choose("ann")
        bob.shows(["theirs: Hello, Bob ✓ <b>&amp;"])
        bob.until("!document.querySelector('#people .unread')", "it is read")
        name = bob.run("document.querySelector('#people span').getBoundingClientRect().width")
        self.assertGreater(name, 20, "her name is to be seen")
        bob.say("你好，Ann\nin two lines")
        ann.shows(["own: Hello, Bob ✓ <b>&amp;", "theirs: 你好，Ann\nin two lines"])
        ann.until("/read/.test(document.querySelector('#rows .own small')?.textContent)", "he has")
        ann.open()
        ann.until("!document.getElementById('room').hidden", "Ann is in again by herself")
        ann.choose("bob")
        ann.shows(["own: Hello, Bob ✓ <b>&amp;", "theirs: 你好，Ann\nin two lines"])
        self.calm(ann, bob)

    def test_what_was_called_back_is_shown_no_more(self):
        ann, bob = self.person("ann"), self.person("bob")
        ann.write_to("bob")
        ann.say("oops")
        ann.say("well")
        bob.until("document.querySelector('#people .unread')", "Bob is told of it")
        bob.choose("ann")
        bob.shows(["theirs: oops", "theirs: well"])
        self.im("recall", "ann", "bob", "1")
        told = "change: ann deleted a message"
        bob.shows([told, "theirs: well"])
        ann.shows(["change: You deleted a message", "own: well"])
        self.assertNotIn("oops", bob.run("JSON.stringify({...localStorage})"))
        bob.open()
        bob.until("!document.getElementById('room').hidden", "Bob is in again by himself")
        bob.choose("ann")
        bob.shows([told, "theirs: well"])
        self.calm(ann, bob)

    def test_what_is_said_while_the_server_is_away_arrives_once(self):
        ann, bob = self.person("ann"), self.person("bob")
        for page, other in ((ann, "bob"), (bob, "ann")):
            page.write_to(other)
        ann.say("before")
        bob.shows(["theirs: before"])
        config = f'{self.server.ports["im-ws"][0]}:{self.server.ports["im-ws"][1]}'
        self.server.kill()
        ann.until("/lost|Connecting/.test(document.getElementById('banner').textContent)",
                  "a banner")
        ann.say("meanwhile")
        ann.shows(["own: before", "own: meanwhile"])
        ann.until("/waiting/.test(document.querySelector('#rows li:last-child small').textContent)",
                  "it waits")
        self.server.configure({"listen.im-ws": {**PAGE["listen.im-ws"], "address": config}})
        self.server.start()
        bob.shows(["theirs: before", "theirs: meanwhile"], 90)
        ann.until("/sent|delivered|read/.test("
                  "document.querySelector('#rows li:last-child small').textContent)",
                  "it is sent", 90)
        bob.say("after")
        ann.shows(["own: before", "own: meanwhile", "theirs: after"])
        bob.shows(["theirs: before", "theirs: meanwhile", "own: after"])
        # The console names connections that were refused; nothing else may stand there.
        for page in (ann, bob):
            self.calm_but_for(page, "ERR_CONNECTION_REFUSED|WebSocket connection")

    def test_what_was_written_offline_outlives_a_reload(self):
        ann = self.person("ann")
        self.person("bob")
        ann.write_to("bob")
        ann.offline(True)
        ann.run("window.dispatchEvent(new Event('offline'))")
        self.server.kill()
        ann.until("/lost|Connecting/.test(document.getElementById('banner').textContent)",
                  "a banner")
        ann.say("kept")
        address = "{}:{}".format(*self.server.ports["im-ws"])
        self.server.configure({"listen.im-ws": {**PAGE["listen.im-ws"], "address": address}})
        self.server.start()
        ann.offline(False)
        ann.open()
        ann.until("!document.getElementById('room').hidden", "Ann is in again")
        ann.write_to("bob")
        ann.shows(["own: kept"])
        ann.until("/sent|delivered/.test(document.querySelector('#rows .own small')?.textContent)", "sent")

    def test_a_password_is_proved_and_a_wrong_one_told(self):
        user(self.server, "ann", "pencil")
        page = self.page()
        page.enter("ann", "pen")
        page.until("/Wrong/.test(document.getElementById('login-fault').textContent)", "a sentence")
        page.enter("ann", "pencil")
        page.until("!document.getElementById('room').hidden", "Ann is in")
        page.until(TOKEN_KEPT, "it has a token")
        page.run("document.getElementById('leave').click()")
        page.until("!document.getElementById('door').hidden", "she went")
        kept = json.loads(page.run("JSON.stringify({...localStorage, ...sessionStorage})"))
        self.assertEqual([it for it in kept.items() if "ann" in str(it)], [],
                         "nothing of hers is left")
        self.calm(page)

    def test_a_reload_logs_in_by_a_token_until_one_logs_out(self):
        for name in ("ann", "bob"):
            user(self.server, name, "pencil")
        page = self.person("ann", "pencil")
        page.write_to("bob")
        page.say("hello")
        page.shows(["own: hello"])
        for _ in range(3):
            page.until(TOKEN_KEPT, "it has a token")
            page.open()
            page.until("!document.getElementById('room').hidden", "Ann is in again by herself")
            page.shows(["own: hello"])
        kept = page.run("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        self.assertNotIn("pencil", kept)
        self.calm(page)
        # Whoever had copied the token cannot log in by it once she has logged out.
        login = json.dumps(page.run("sessionStorage.getItem('holdline-chat:login')"))
        device = json.dumps(json.loads(page.run("JSON.stringify(Object.entries(localStorage)"
                                                ".find(it => it[0].endsWith(':device')))")))
        page.run("document.getElementById('leave').click()")
        page.until("!document.getElementById('door').hidden", "she went")
        page.run(f"sessionStorage.setItem('holdline-chat:login', {login});"
                 f"localStorage.setItem(...{device})")
        page.open()
        page.until("/Log in again/.test(document.getElementById('login-fault').textContent)",
                   "the token is void")
        self.assertEqual(page.run("document.getElementById('account').value"), "ann")
        self.assertIsNone(page.run("sessionStorage.getItem('holdline-chat:login')"))

    def test_who_stays_logged_in_is_so_in_the_next_tab_and_until_the_password_changes(self):
        user(self.server, "ann", "pencil")
        first = self.page()
        first.run("document.getElementById('stay').click()")
        first.enter("ann", "pencil")
        first.until(TOKEN_KEPT.replace("session", "local"), "it has a token")
        self.assertIsNone(first.run("sessionStorage.getItem('holdline-chat:login')"))
        second = self.chromium.page(context=first.context)
        second.open(first.url)
        second.until("!document.getElementById('room').hidden", "she is in")
        user(self.server, "ann", "another")
        second.until("/Log in again/.test(document.getElementById('login-fault').textContent)",
                     "her tokens are void")
        self.assertIsNone(second.run("localStorage.getItem('holdline-chat:login')"))

    def test_a_name_that_nobody_has_is_told_and_can_be_tried_again(self):
        ann = self.person("ann")
        ann.write_to("bob")
        ann.say("are you there?")
        ann.until("/does not exist/.test(document.querySelector('#rows').textContent)",
                  "a sentence")
        bob = self.person("bob")
        ann.run("document.querySelector('#rows .failed button').click()")
        bob.until("document.querySelector('#people button')", "Ann is known")
        bob.choose("ann")
        bob.shows(["theirs: are you there?"])
        ann.shows(["own: are you there?"])
        self.calm(ann, bob)

    def test_a_group_is_made_talks_grows_and_loses_one(self):
        ann, bob, carol = (self.person(name) for name in ("ann", "bob", "carol"))
        self.person("dave")
        ann.run("document.getElementById('make-side').open = true")
        ann.type("#group-title", "Lunch <b>")
        ann.type("#names", "Bob, carol")
        ann.key("Enter", "#names")
        def made(whom, who="ann"):
            return f"change: {who} created the group “Lunch <b>” with {whom}"

        ann.shows([made("bob, carol", "You")])
        self.assertEqual(ann.run("document.getElementById('with').textContent"), "Lunch <b>")
        for page, whom in ((bob, "you, carol"), (carol, "bob, you")):
            page.choose("Lunch <b>")
            page.shows([made(whom)])
        bob.say("Hello, all")
        ann.shows([made("bob, carol", "You"), "theirs: Hello, all"])
        carol.shows([made("bob, you"), "theirs: Hello, all"])
        about = ann.run("document.querySelector('#rows .theirs small').textContent")
        self.assertTrue(about.startswith("bob · "), about)
        self.members(ann, ["ann owner", "bob member Remove", "carol member Remove"])
        self.members(bob, ["ann owner", "bob member", "carol member"])
        self.assertTrue(bob.run("document.getElementById('add').hidden"), "he may not add")
        self.narrow_or_wide(ann)
        ann.type("#add-names", "nobody.at.all")
        ann.key("Enter", "#add-names")
        ann.until("/does not exist/.test(document.getElementById('group-fault').textContent)", "told")
        ann.type("#add-names", "dave")
        ann.key("Enter", "#add-names")
        rows = [made("you, carol"), "own: Hello, all", "change: ann added dave"]
        bob.shows(rows)
        self.members(bob, ["ann owner", "bob member", "carol member", "dave member"], False)
        ann.run("[...document.querySelectorAll('#members li')].find(it => "
                "it.textContent.startsWith('carol')).querySelector('button').click()")
        rows.append("change: ann removed carol")
        bob.shows(rows)
        past = [made("bob, you"), "theirs: Hello, all", "change: ann added dave",
                "change: ann removed you"]
        for _ in range(2):
            carol.until("/no longer a member/.test(document.getElementById('closed').textContent)"
                        " && document.getElementById('say').hidden", "she is told why")
            carol.shows(past)
            self.assertEqual(carol.run("document.getElementById('say-fault').textContent"), "")
            carol.open()
            carol.until("!document.getElementById('room').hidden", "Carol is in again by herself")
        carol.shows(past)
        bob.run("document.getElementById('quit').click()")
        ann.until("/bob left/.test(document.getElementById('rows').textContent)", "he left")
        ann.type("#add-names", "carol")
        ann.key("Enter", "#add-names")
        # What was there while she was not in it she does not have, nor what was before.
        carol.shows(["change: ann added you"])
        carol.until("!document.getElementById('say').hidden", "she may write again")
        ann.open()
        ann.until("!document.getElementById('room').hidden", "Ann is in again by herself")
        ann.choose("Lunch <b>")
        ann.until(f"{ROWS}.length === 6", "all of it is there")
        self.calm(ann, bob, carol)

    def test_an_invitation_is_accepted_or_declined_by_a_button(self):
        ann, bob, carol = (self.person(name) for name in ("ann", "bob", "carol"))
        for name in ("bob", "carol"):
            self.im("privacy", name, "--adding", "nobody")
        ann.run("document.getElementById('make-side').open = true")
        ann.type("#group-title", "Lunch")
        ann.type("#names", "bob, carol")
        ann.key("Enter", "#names")
        for page, whom in ((bob, "you, carol"), (carol, "bob, you")):
            page.until("document.querySelector('#people button')", "the invitation is listed")
            page.run("document.querySelector('#people button').click()")
            page.shows([f"change: ann invited {whom}"])
            page.until("document.querySelectorAll('#rows .answers button').length === 2", "offered")
            # A reload forgets nothing of it.
            page.open()
            page.until("document.querySelectorAll('#rows .answers button').length === 2", "again")
            page.shows([f"change: ann invited {whom}"])
            self.assertTrue(page.run("document.getElementById('say').hidden"))
        bob.run("document.querySelector('#rows .accept').click()")
        ann.until("/bob joined/.test(document.getElementById('rows').textContent)", "he is in it")
        carol.run("document.querySelector('#rows .decline').click()")
        for page in (bob, carol):
            page.until("!document.querySelector('#rows .answers')", "it is answered")
        ann.say("Hello, Bob")
        bob.until("/Hello, Bob/.test(document.getElementById('rows').textContent)", "he hears")
        self.members(ann, ["ann owner", "bob member Remove"])
        self.calm(ann, bob, carol)

    def members(self, page, expected, opens=True):
        """Who is in the group that a page looks at, each with a role and what can be done."""
        if opens:
            page.run("document.getElementById('members-shown').click()")
        self.assertFalse(page.run("document.getElementById('group').hidden"))
        found = ("JSON.stringify([...document.querySelectorAll('#members li')].map(it => "
                 "[...it.children].map(part => part.textContent).join(' ')).sort())")
        wanted = json.dumps(json.dumps(expected, separators=(",", ":")))
        page.until(f"{found} === {wanted}", f"its members are {expected}")

    def narrow_or_wide(self, page):
        wide = page.run("[document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(wide[0], wide[1], "nothing is to be scrolled sideways")

    def test_a_long_history_is_read_backwards_and_a_small_screen_has_room(self):
        ann, bob = self.person("ann", width=375), self.person("bob")
        bob.write_to("ann")
        for number in range(70):
            bob.say(f"{number} " + "long-word-without-a-break" * (6 if number == 69 else 1))
        ann.until("document.querySelector('#people button')", "Bob is known")
        self.narrow(ann)
        bob.until("document.querySelectorAll('#rows small').length === 70 && "
                  "!/waiting/.test(document.querySelector('#rows').textContent)", "all is sent", 60)
        ann.choose("bob")
        ann.until(f"{ROWS}.length === 50", "the newest are there")
        self.narrow(ann)
        ann.run("document.getElementById('scroll').scrollTop = 0")
        ann.until(f"{ROWS}.length === 70", "the oldest, too")
        texts = ann.run(f"{ROWS}.map(it => it.querySelector('.text').textContent)")
        self.assertEqual([int(text.split()[0]) for text in texts], list(range(70)))
        ann.key("Escape", "#text")
        ann.until("!document.body.classList.contains('talking')", "back among the people")
        self.narrow(ann)
        self.calm(ann, bob)

    def test_another_tab_takes_over_and_gives_back_and_it_speaks_chinese(self):
        first = self.person("ann")
        second = self.chromium.page(context=first.context)
        second.open(first.url)
        second.enter("ann", "")
        first.until("/elsewhere/.test(document.getElementById('banner').textContent)", "told so")
        first.run("document.getElementById('again').click()")
        second.until("/elsewhere/.test(document.getElementById('banner').textContent)", "told so")
        first.run("""(() => { const it = document.getElementById('language');
                     it.value = 'zh'; it.dispatchEvent(new Event('change')); })()""")
        self.assertEqual(first.run("document.getElementById('leave').textContent"), "退出登录")
        self.assertEqual(first.run("document.documentElement.lang"), "zh-CN")
        first.open()
        first.until("document.getElementById('leave').textContent === '退出登录'", "it is kept")
        self.calm(first, second)

    def test_everything_that_can_be_used_has_a_name_in_light_and_dark(self):
        ann = self.person("ann")
        self.person("bob")
        ann.run("document.getElementById('make-side').open = true")
        ann.type("#names", "bob")
        ann.key("Enter", "#names")
        ann.until("document.querySelector('#rows .change')", "a group is made")
        ann.run("document.getElementById('make-side').open = true")
        self.members(ann, ["ann owner", "bob member Remove"])
        for scheme in ("light", "dark"):
            ann.call("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": scheme}])
            nodes = ann.call("Accessibility.getFullAXTree")["nodes"]
            roles = {"button", "textbox", "combobox", "navigation", "log"}
            used = [(node["role"]["value"], node.get("name", {}).get("value"))
                    for node in nodes if not node.get("ignored")
                    and node["role"]["value"] in roles]
            self.assertGreaterEqual(len(used), 14)
            self.assertEqual([it for it in used if not it[1]], [])
            contrast = ann.run(CONTRAST)
            self.assertEqual([it for it in contrast if it[1] < 4.5], [], scheme)
        self.calm(ann)
