"""Each page of the console shows what the API gives, is live, and can be used by everybody."""

import json
import os
import re
import time
import unittest

import miop
from console.desk import AXE, Consoles, Operator
from console.pictures import LABELS
from fixture import poll

ROUTES = {
    "overview": "Overview", "alarms": "Alarms", "alarms?state=past": "Alarms", "events": "Events", "log": "Log", "clients": "Clients",
    "trace": "Trace", "trace?client=till-1": "Trace",
    "clients?client_id=till-1": "Clients", "sessions": "Sessions and queues",
    "devices": "Devices", "devices?product=demo&device=lamp": "Devices",
    "disconnections": "Disconnections",
    "slow": "Slow clients", "slow?by=lost": "Slow clients", "talkers": "Top talkers",
    "talkers?of=topics&by=messages": "Top talkers", "topics": "Topics",
    "topics?topic=tills%2F1%2Fstate": "Topics", "groups": "Rooms and groups",
    "groups?group=GROUP": "Rooms and groups", "chatrooms": "Chatrooms", "conversations": "Conversations", "services": "Services",
    "push": "Push", "pushes": "Pushes", "pushes?state=running": "Pushes", "products": "Products", "products?product=demo": "Products",
    "closes": "Disconnect reasons",
    "drops": "Dropped messages", "counters": "Counters", "users": "Users and rules",
    "users?user=ann": "Users and rules", "tokens": "API tokens", "audit": "Audit log",
    "bans": "Bans", "cluster": "Cluster",
    "configuration": "Configuration", "configuration?only=changed": "Configuration",
    "api": "API",
}

# What a stranger may be called: none of it is markup, and none turns the page around.
ODD = "<img src=x onerror=alert(1)>\u202eevil"


class Pages(Consoles):
    def furnish(self):
        """Something to see on each page."""
        self.till = self.mqtt("till-1")
        self.till.subscribe("prices/#")
        self.till.publish("tills/1/state", "open", retain=True)
        away = self.mqtt("till-2")
        away.subscribe("prices/#")
        away.close()
        poll(lambda: not self.server.ask("GET", "/v1/clients/till-2")["online"], "it is away")
        self.till.publish("prices/1", "9")
        self.lamp = self.device("lamp")
        # With one rule of anybody, what no rule speaks of is forbidden.
        self.server.ask("PUT", "/v1/users/*", {"rules": [{"filter": "#"}]})
        self.server.ask("PUT", "/v1/users/ann", {"password": "pencil", "rules": [
            {"allow": True, "action": "publish", "filter": "tills/%c/#"}, {"filter": "#"}]})
        self.token("viewer", "read")
        self.server.ask("POST", "/v1/bans", {"kind": "client", "subject": "till-9"})
        self.server.ask("PUT", "/v1/users/bob", {"password": "eraser"})
        self.group = self.server.ask("POST", "/v1/chat/groups", {
            "owner": "ann", "title": "Lunch", "members": ["bob"]})["group"]
        self.server.ask("POST", "/v1/chat/chatrooms/lobby/changes",
                        {"verb": "create", "text": "Lobby"})
        self.routes = {route.replace("GROUP", self.group.replace("@", "%40")): title
                       for route, title in ROUTES.items()}

    def test_the_pictures_in_the_documentation_show_this_console(self):
        operator = self.operator().go("overview", "Overview")
        with open(LABELS, encoding="utf-8") as file:
            self.assertEqual(file.read(), operator.labels(),
                             "make them anew: python3 tests/e2e/console/pictures.py")

    def test_every_page_stands_in_light_and_dark_and_on_a_phone(self):
        self.furnish()
        wide, narrow = self.operator(), self.operator(width=375)
        narrow.scheme("dark")
        for route, title in self.routes.items():
            for operator in (wide, narrow):
                operator.go(route, title)
                text = operator.page.run("document.querySelector('#page').innerText")
                self.assertNotIn("[object ", text, route)
                self.assertFalse(operator.page.run("!!document.querySelector('#page .fault:not(:empty)')"),
                                 operator.text())
                self.narrow(operator, route)
        narrow.page.run("document.getElementById('menu').click()")
        self.narrow(narrow, "the menu")
        paper = "getComputedStyle(document.body).backgroundColor"
        self.assertNotEqual(wide.page.run(paper), narrow.page.run(paper), "dark is dark")
        wide.page.run("(() => { const it = document.getElementById('theme'); it.value = 'dark'; "
                      "it.dispatchEvent(new Event('change')); })()")
        self.assertEqual(wide.page.run(paper), narrow.page.run(paper), "it can be chosen")
        wide.open()
        wide.page.until("document.getElementById('frame')", "the session goes on")
        self.assertEqual(wide.page.run("document.documentElement.dataset.theme"), "dark")
        self.calm(wide, narrow)

    def test_the_console_is_in_the_browser_s_language_or_the_chosen_one(self):
        self.furnish()
        operator = Operator(self.chromium, self.server, width=375)
        agent = operator.page.run("navigator.userAgent")
        operator.page.call("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage="zh-CN,zh")
        operator.open()
        operator.says("密码或 API 令牌")
        self.assertEqual(operator.page.run("document.documentElement.lang"), "zh-CN")
        operator.log_in()
        for route in self.routes:
            operator.page.run(f"location.hash = {json.dumps('#/' + route)}")
            operator.page.until(f"location.hash === {json.dumps('#/' + route)} && document.querySelector('#page *')"
                                " && !document.querySelector('#page [aria-busy]')", route)
            title = operator.page.run("document.getElementById('title').textContent")
            self.assertRegex(title, "[一-鿿]|^API$", route)
            self.assertFalse(operator.page.run("!!document.querySelector('#page .fault:not(:empty)')"),
                             operator.text())
            self.narrow(operator, route)
        operator.go("clients?client_id=till-1", "客户端")
        self.assertEqual(operator.pair("状态"), "在线")
        operator.click("断开连接")
        operator.click("断开客户端", "dialog button")
        operator.says("till-1 已断开。")
        # A choice holds here and after the page is opened again, whatever the browser wants.
        operator.page.run("(() => { const it = document.getElementById('language'); it.value = 'en'; "
                          "it.dispatchEvent(new Event('change')); })()")
        operator.page.until("document.getElementById('title')?.textContent === 'Clients'", "it is English")
        operator.open().says("Overview")
        self.assertEqual(operator.page.run("document.documentElement.lang"), "en")
        self.calm(operator)

    def test_axe_finds_nothing_serious_on_any_page(self):
        if not os.path.exists(AXE):
            raise unittest.SkipTest("axe-core could not be installed: NOTHING WAS LOOKED AT")
        self.furnish()
        operator = self.operator()
        for scheme in ("light", "dark"):
            operator.scheme(scheme)
            for route, title in self.routes.items():
                operator.go(route, title)
                self.assertEqual(operator.findings(), [], f"{route} in {scheme}")
        operator.page.run("document.getElementById('logout').click()")
        operator.page.until("document.getElementById('door')", "the door")
        self.assertEqual(operator.findings(), [], "the door")

    def test_every_field_has_a_label_and_a_sentence_that_says_what_it_means(self):
        self.furnish()
        operator = self.operator()
        for route, title in self.routes.items():
            operator.go(route, title)
            operator.page.run("document.querySelector('#page details.call summary')?.click()")
            # The selects of a list's order and refresh, and of the charts' range, name themselves.
            bare = operator.page.run(
                "[...document.querySelectorAll('#page :is(input, select, textarea)')]"
                ".filter(it => !it.closest('.tools, .sorts, .head'))"
                ".filter(it => { const it_or_group = it.type === 'checkbox' && it.closest('fieldset') || it;"
                " const of = (it_or_group.getAttribute('aria-describedby') ?? '').split(' ')[0];"
                " return !it.labels[0]?.textContent.trim()"
                " || !document.getElementById(of)?.textContent.trim(); })"
                ".map(it => it.outerHTML)")
            self.assertEqual(bare, [], route)
        self.calm(operator)

    def test_an_error_is_shown_at_its_field(self):
        self.furnish()
        operator = self.operator()

        def fault(name):
            operator.page.until(f"document.querySelector('#page [name={name}][aria-invalid=true]')",
                                f"the error of {name}")
            self.assertEqual(operator.page.run("document.querySelectorAll('#page [aria-invalid]').length"), 1)
            return operator.page.run(
                "(() => { const it = document.querySelector('#page [aria-invalid=true]'); "
                "return document.getElementById(it.id + '-fault').innerText; })()")

        # What the page finds itself, before it asks the server.
        operator.go("products", "Products")
        operator.fill("[name=product-key]", "two words")
        operator.fill("[name=product-number]", "77")
        operator.submit("[name=product-key]")
        self.assertEqual(fault("product-key"), "Invalid: the line above says what is allowed.")
        operator.fill("[name=product-key]", "meters")
        operator.fill("[name=offline_count_max]", "10001")
        operator.submit("[name=product-key]")
        self.assertEqual(fault("offline_count_max"), "Allowed: 0 to 10000.")
        self.assertEqual(operator.page.run("document.activeElement.name"), "offline_count_max")
        operator.go("disconnections?since=yesterday", "Disconnections")
        self.assertIn("Invalid time.", fault("since"))
        operator.go("devices?device=lamp", "Devices")
        self.assertEqual(fault("product"), "A search by device ID needs the product.")
        # What the server finds.
        operator.go("bans", "Bans")
        operator.fill("[name=subject]", "no address")
        operator.submit("[name=subject]")
        operator.click("Ban", "dialog button")
        self.assertIn("address", fault("subject"))
        operator.go("clients?address=nonsense", "Clients")
        self.assertIn("`address`", fault("address"))
        self.calm(operator, but=("400", "404"))

    def test_the_keyboard_reaches_everything_that_can_be_used(self):
        self.furnish()
        operator = self.operator()
        for route in ("overview", "clients?client_id=till-1", "users?user=ann", "push"):
            operator.go(route, ROUTES[route])
            self.assertGreater(len(operator.reached()), 20)
            # What came up meanwhile, a table that has its first row say, was nobody's turn.
            missed = operator.page.run(
                "[...stood].filter(it => it.isConnected && it.checkVisibility() && !it.disabled"
                " && !tabbed.has(it)).map(it => it.outerHTML)")
            self.assertEqual(missed, [], route)
        # By keys alone: from the list to a client, and its connection is ended.
        operator.go("clients?client_id=till-1", "Clients")
        operator.page.key("Enter", "#kick")
        operator.page.until("document.querySelector('dialog[open]')", "it asks")
        self.assertEqual(operator.page.run("document.activeElement.textContent"), "Cancel")
        operator.tab()
        self.assertEqual(operator.page.run("document.activeElement.textContent"), "Disconnect client")
        operator.page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter",
                           text="\r", windowsVirtualKeyCode=13)
        operator.page.call("Input.dispatchKeyEvent", type="keyUp", key="Enter", code="Enter")
        operator.says("till-1 was disconnected.")
        self.assertTrue(self.till.is_closed())
        self.calm(operator)

    def test_a_chart_tells_its_figures_and_is_gone_through_by_arrow_keys(self):
        self.furnish()
        operator = self.operator()
        chart = ("[...document.querySelectorAll('figure')].find(it => "
                 "it.querySelector('h2').textContent === 'Connections').querySelector('svg')")
        operator.page.until(f"/Connections, now. current: 2, lowest/.test({chart}.getAttribute('aria-label'))",
                            "it is told in words")
        operator.page.until(f"{chart}.closest('figure').querySelector('path').getAttribute('d').includes('L')",
                            "there are two moments")
        operator.page.run(f"{chart}.focus()")
        for kind in ("keyDown", "keyUp"):
            operator.page.call("Input.dispatchKeyEvent", type=kind, key="ArrowLeft", code="ArrowLeft")
        label = operator.page.run(f"{chart}.getAttribute('aria-label')")
        self.assertRegex(label, r"Connections, \d\d:\d\d:\d\d\.")
        operator.page.run(f"{chart}.closest('figure').querySelector('summary').click()")
        operator.page.until(f"{chart}.closest('figure').querySelector('tbody tr')", "a table of it")
        self.calm(operator)

    def test_the_overview_has_the_api_s_figures_and_follows_them(self):
        self.furnish()
        operator = self.operator()
        operator.says("No problems found.")
        poll(lambda: operator.figure("Connections") == "2", "two connections")
        operator.says("Live")
        status = self.server.status()
        for term, key in (("MQTT sessions", "sessions"), ("Subscriptions", "subscriptions"),
                          ("Queued MQTT messages", "queued"), ("Devices", "devices"),
                          ("Retained messages", "retained")):
            shown = operator.pair(term).replace(",", "")
            self.assertEqual(int(shown), status[key], term)
        more = self.mqtt("till-3")
        poll(lambda: operator.figure("Connections") == "3", "three connections")
        more.close()
        poll(lambda: operator.figure("Connections") == "2", "two connections again")
        rows = operator.page.run(
            "[...document.querySelectorAll('#page tbody tr')].map(it => [...it.children].map(it => it.textContent))")
        protocols = {row[0]: row[1:] for row in rows}
        counts = self.server.ask("GET", "/v1/presence/counts")["by"]
        for it in counts:
            self.assertEqual(protocols[it["protocol"]],
                             [f"{it[key]:,}" for key in ("online", "arrivals", "departures")])
        self.calm(operator)

    def test_counts_are_those_of_the_api(self):
        self.furnish()
        self.lamp.close()
        self.server.offline("lamp")
        operator = self.operator()
        for route, of in (("closes", "closed"), ("drops", "dropped"), ("counters", "counters")):
            operator.go(route, ROUTES[route])
            operator.page.until("document.querySelector('#page table, #page .none')", "figures")
            rows = operator.page.run(
                "[...document.querySelectorAll('#page tbody tr')].map(it => [it.children[0].textContent, "
                "it.children[3].textContent])")
            status = self.server.status()[of]
            wanted = {key: count for key, count in status.items() if count or of == "counters"}
            if of != "counters":  # the calls to the API themselves count nothing here
                self.assertEqual({key: int(count.replace(",", "")) for key, count in rows}, wanted)
            else:
                self.assertEqual({key for key, _ in rows}, set(wanted))
        operator.go("closes?with=slow", ROUTES["closes"])
        operator.says("The peer did not read, for too long or while too much came.")
        self.calm(operator)

    def test_what_strangers_are_called_is_text(self):
        odd = self.mqtt(ODD, user=None)
        odd.publish("odd/<b>x</b>", "<script>alert(1)</script>", retain=True)
        operator = self.operator()
        operator.go("clients", "Clients")
        operator.says("<img src=x onerror=alert(1)>\\u{202e}evil")
        operator.page.run("document.querySelector('#page tbody a').click()")
        operator.says("Keep-alive")
        self.assertEqual(operator.pair("State"), "online")
        operator.go("topics", "Topics")
        operator.says("<script>alert(1)</script>")
        self.assertEqual(operator.page.run("document.querySelectorAll('#page b:not(.legend b), #page img').length"), 0)
        self.calm(operator)

    def test_who_may_only_look_is_shown_no_more(self):
        self.furnish()
        operator = self.operator(self.token("looker", "read"))
        shown = operator.page.run("[...document.querySelectorAll('#pages a')].map(it => it.textContent)")
        self.assertIn("Clients", shown)
        self.assertFalse({"Users and rules", "API tokens", "Push", "Configuration"} & set(shown))
        operator.go("clients?client_id=till-1", "Clients")
        self.assertFalse(operator.page.run("!!document.getElementById('kick')"))
        # Nor by a call of its own.
        told = operator.page.run(
            "fetch('v1/clients/till-1', { method: 'DELETE', headers: { 'Holdline-Console': '1' } })"
            ".then(it => it.json()).then(it => it.error.code)")
        self.assertEqual(told, "scope_missing")
        self.assertTrue(self.server.ask("GET", "/v1/clients/till-1")["online"])
        self.calm(operator, but=("403",))

    def test_groups_and_chatrooms_are_found_and_governed(self):
        self.furnish()
        operator = self.operator()
        operator.go("groups", "Rooms and groups").says("Lunch")
        operator.click(self.group)
        operator.says("bob@localhost")
        self.assertEqual(operator.pair("Members"), "2")
        operator.click("Close group")
        operator.says("owner and admins")
        told = self.server.ask("GET", f"/v1/chat/groups/{self.group}")
        self.assertTrue(told["closed"])
        operator.go("chatrooms", "Chatrooms").says("lobby@live.localhost")
        self.assertEqual(operator.pair("Changes"), str(
            self.server.status()["counters"]["chat_chatroom_changes_total"]))
        operator.click("Mute")
        operator.says("Only the owner and moderators may send in lobby@live.localhost.")
        operator.fill("input[name=room]", "lobby")
        operator.fill("input[name=text]", "closing time")
        operator.submit("input[name=text]")
        operator.says("Announcement sent.")
        room, = self.server.ask("GET", "/v1/chat/chatrooms")["chatrooms"]
        self.assertEqual((room["quiet"], room["announcement"]), (True, "closing time"))
        operator.click("Close")
        operator.click("Close chatroom")
        operator.says("lobby@live.localhost was closed.")
        operator.says("No chatrooms. Create one with: holdline im chatrooms make")
        # Whoever may only look is shown no orders.
        viewer = self.operator(self.token("looks", "read"))
        viewer.go("groups?group=" + self.group.replace("@", "%40"), "Rooms and groups")
        self.assertFalse(viewer.page.run("!!document.querySelector('#close')"))
        self.calm(operator, viewer)


class Acts(Consoles):
    def test_a_push_is_watched_as_it_arrives(self):
        lamp = self.device("lamp")
        operator = self.operator().go("push?product=demo&device=lamp", "Push")
        operator.fill("[name=body]", "Light ✓")
        operator.submit("[name=body]")
        frame = lamp.expect(miop.MSG)
        self.assertEqual(frame.bodies[0].decode(), "Light ✓")
        operator.says("Sent to the server.")
        lamp.ack(*[record.id for record in frame.records])
        operator.says("delivered")
        operator.says("lamp: delivered (event pushed)")
        # One that is away has it when it comes, and the page is told then.
        operator.fill("[name=device]", "later")
        operator.submit("[name=body]")
        operator.says("queued until the device connects")
        later = self.server.device()
        self.addCleanup(later.close)
        later.bind("later")
        self.assertEqual(later.receive(), [bytes("Light ✓", "utf-8")])
        operator.says("later connected")
        operator.says("later: delivered (event pushed)")
        operator.fill("[name=product]", "none")
        operator.submit("[name=body]")
        operator.says("unknown product")
        self.calm(operator, but=("404",))

    def test_pushes_to_many_devices_are_listed_and_stopped(self):
        self.device("lamp").close()
        self.server.offline("lamp")
        later = self.server.push(body="later", all=True, send_at_ms=int(time.time() + 3600) * 1000)
        stored = self.server.push(body="now", all=True, wait_ms=5000)
        operator = self.operator().go("pushes", "Pushes")
        for push, count in ((later, 0), (stored, 1)):
            operator.says(push["id"])
            for word in ("Pause", "Resume") if push is later else ():
                act = json.dumps(f"[aria-label='{word} push {push['id']}']")
                operator.page.until(f"!!document.querySelector({act})", "it is shown")
                operator.page.run(f"document.querySelector({act}).click()")
                operator.says("paused" if word == "Pause" else "scheduled")
            button = f"[aria-label='Stop push {push['id']}']"
            operator.page.until(f"!!document.querySelector({json.dumps(button)})", "it is shown")
            operator.page.run(f"document.querySelector({json.dumps(button)}).click()")
            operator.says(f"Stop push {push['id']}?")
            operator.click("Stop", "dialog button")
            operator.says(f"Push {push['id']} is stopped. Recalled from {count} devices.")
            self.assertEqual(self.server.ask("GET", f"/v1/pushes/{push['id']}")["state"],
                             "cancelled")
            gone = f"!document.querySelector({json.dumps(button)})"
            operator.page.until(gone, "nothing of it is to be stopped")
        self.assertEqual(self.server.state("lamp")["waiting"], 0)

    def test_a_tracked_push_shows_what_became_of_it_at_its_devices(self):
        self.device("lamp").close()
        self.server.offline("lamp")
        push = self.server.push(body="hello", devices=["lamp", "unknown/one"], track=True,
                                wait_ms=5000)["id"]
        operator = self.operator().go(f"pushes?push={push}", "Pushes")
        operator.says("lamp")
        operator.says("Sent, not acknowledged")
        operator.says("By minute")
        self.assertGreater(operator.page.run("document.querySelectorAll('progress').length"), 7)
        operator.go(f"pushes?push={push}&outcome=stored", "Pushes")
        operator.says("lamp")
        operator.go(f"pushes?push={push}&outcome=delivered", "Pushes")
        operator.says("No device yet.")
        stop = f"[aria-label='Stop push {push}']"
        operator.page.until(f"!!document.querySelector({json.dumps(stop)})", "it can be stopped")
        operator.page.run(f"document.querySelector({json.dumps(stop)}).click()")
        operator.says(f"Stop push {push}?")
        operator.click("Stop", "dialog button")
        operator.says("cancelled")
        self.assertEqual(self.server.ask("GET", f"/v1/pushes/{push}")["state"], "cancelled")
        operator.go("pushes", "Pushes")
        operator.says(push)
        self.calm(operator)

    def test_a_message_is_published_found_and_cleared(self):
        till = self.mqtt("till-1")
        till.subscribe("tills/#")
        operator = self.operator().go("topics", "Topics")
        operator.fill("[name=topic]", "tills/9/state")
        operator.fill("[name=payload]", "closed")
        operator.page.run("document.querySelector('[name=retain]').click()")
        operator.submit("[name=topic]")
        operator.says("Published.")
        kind, body = till.read()
        self.assertTrue(kind & 0xF0 == 0x30 and body.endswith(b"closed"))
        operator.go("topics?filter=tills%2F%2B%2Fstate", "Topics").says("closed")
        operator.click("tills/9/state")
        operator.says("Payload:")
        operator.click("Delete")
        operator.click("Delete message", "dialog button")
        operator.says("The retained message of tills/9/state was deleted.")
        self.assertEqual(self.server.ask("GET", "/v1/retained")["messages"], [])
        self.calm(operator)

    def test_a_user_is_added_bound_by_rules_given_a_password_and_removed(self):
        operator = self.operator().go("users", "Users and rules")
        operator.fill("[name=new]", "ann")
        operator.fill("[name=password]", "pencil")
        operator.submit("[name=new]")
        operator.says("User ann")
        self.assertEqual(self.mqtt("a", user="ann", password="pencil").code, 0)
        operator.fill("[name=rules]", "allow publish tills/%c/#\nnonsense")
        operator.submit("[name=rules]")
        operator.says("Invalid rule: nonsense.")
        operator.fill("[name=rules]", "allow publish tills/%c/#\ndeny all secret/#")
        operator.submit("[name=rules]")
        operator.says("The rules of ann were saved.")
        self.assertEqual(self.server.ask("GET", "/v1/users/ann")["rules"], [
            {"allow": True, "action": "publish", "filter": "tills/%c/#"},
            {"allow": False, "action": "all", "filter": "secret/#"}])
        operator.fill("[name=password]", "brush")
        operator.submit("[name=password]")
        operator.says("The password of ann was changed.")
        self.assertNotEqual(self.mqtt("a", user="ann", password="pencil").code, 0)
        self.assertEqual(self.mqtt("a", user="ann", password="brush").code, 0)
        operator.go("users", "Users and rules")
        operator.fill("[name=new]", "ann")
        operator.fill("[name=password]", "other")
        operator.submit("[name=new]")
        operator.says("This user already exists.")
        operator.go("users?user=ann", "Users and rules").click("Remove")
        operator.click("Remove user", "dialog button")
        operator.says("User ann was removed.")
        self.assertEqual(self.server.ask("GET", "/v1/users")["users"], [])
        self.calm(operator, but=("404",))

    def test_clients_are_found_by_identifier_user_address_and_what_waits(self):
        self.server.ask("PUT", "/v1/users/ann", {"password": "pencil"})
        here = self.mqtt("till-1")
        self.mqtt("lamp-1", user="ann", password="pencil")
        away = self.mqtt("till-2")
        away.subscribe("prices/#")
        away.close()
        poll(lambda: not self.server.ask("GET", "/v1/clients/till-2")["online"], "it is away")
        here.publish("prices/1", "9")
        operator = self.operator()
        for route, title, wanted in (
                ("clients?prefix=till-", "Clients", {"till-1", "till-2"}),
                ("clients?user=ann", "Clients", {"lamp-1"}),
                ("clients?address=127.0.0.1", "Clients", {"till-1", "lamp-1"}),
                ("clients?address=192.0.2.1", "Clients", set()),
                ("clients?online=false", "Clients", {"till-2"}),
                ("sessions?kind=waiting", "Sessions and queues", {"till-2"}),
                ("slow", "Slow clients", set())):
            operator.go(route, title)
            found = operator.page.run("[...document.querySelectorAll('#page tbody th a')].map(it => it.textContent)")
            self.assertEqual(set(found), wanted, route)
        operator.go("clients?address=nonsense", "Clients")
        operator.page.until("document.querySelector('#page .fault')", "it says what is wrong")
        self.calm(operator, but=("400",))

    def test_a_list_is_sorted_by_a_column_refreshed_and_linked(self):
        here = self.mqtt("till-1")
        for name, topic in (("lamp-1", "prices/1"), ("lamp-2", "prices/#")):
            away = self.mqtt(name)
            away.subscribe(topic)
            away.close()
        poll(lambda: not self.server.ask("GET", "/v1/clients/lamp-2")["online"], "it is away")
        here.publish("prices/1", "9")
        here.publish("prices/2", "9")
        operator = self.operator().go("clients?prefix=l", "Clients")
        operator.click("Queued", "th button")
        self.assertEqual(operator.column(), ["lamp-2", "lamp-1"], "the largest first")
        self.assertTrue(operator.page.run("location.hash").endswith("?prefix=l&sort=-queued"))
        # The order holds for what a refresh brings, and for a link.
        here.publish("prices/1", "9")
        operator.click("Refresh")
        poll(lambda: operator.column(6) == ["3", "2"], "it was refreshed")
        self.assertEqual(operator.column(), ["lamp-2", "lamp-1"])
        operator.click("Queued", "th button")
        self.assertEqual(operator.column(), ["lamp-1", "lamp-2"])
        self.assertEqual(operator.page.run("document.activeElement.textContent"), "Queued")
        operator.go("clients?sort=-client_id&every=2", "Clients")
        poll(lambda: operator.column() == ["till-1", "lamp-2", "lamp-1"], "the order of the link")
        self.mqtt("xray")
        poll(lambda: operator.column() == ["xray", "till-1", "lamp-2", "lamp-1"], "it refreshes by itself")
        self.calm(operator)

    def test_dropped_messages_are_the_first_thing_on_the_overview_with_a_link(self):
        self.server = self.start({**self.CHANGES, "mqtt": {"queue_count_max": 2}})
        operator = self.operator().go("overview", "Overview")
        operator.says("No problems found.")
        here = self.mqtt("till-1")
        away = self.mqtt("lamp")
        away.subscribe("prices/#")
        away.close()
        poll(lambda: not self.server.ask("GET", "/v1/clients/lamp")["online"], "it is away")
        for number in range(5):
            here.publish("prices/1", str(number))
        operator.says("3 messages dropped in the last minute")
        self.assertEqual(operator.figure("Dropped"), "3")
        operator.click("Slow clients →", "#health a")
        operator.page.until("document.getElementById('title').textContent === 'Slow clients'", "the page")
        operator.says("lamp")
        self.calm(operator)

    def test_a_token_is_created_and_shown_once(self):
        operator = self.operator().go("tokens", "API tokens")
        operator.fill("[name=token-name]", "monday")
        operator.fill("[name=token-days]", "7")
        operator.submit("[name=token-name]")
        operator.says("`scopes` must be a list of one or more of")
        operator.page.run("document.querySelector('[name=scope][value=read]').click()")
        operator.submit("[name=token-name]")
        operator.page.until("document.getElementById('made-token')", "the token")
        token = operator.page.run("document.getElementById('made-token').textContent")
        made, = self.server.ask("GET", "/v1/tokens")["tokens"]
        self.assertEqual((made["name"], made["scopes"]), ("monday", ["read"]))
        self.assertEqual(made["expires_ms"] - made["made_ms"], 7 * 86_400_000)
        self.operator(token).go("clients", "Clients")
        operator.go("clients", "Clients").go("tokens", "API tokens").says("monday")
        self.assertNotIn(token, operator.page.run("document.body.textContent"))
        self.calm(operator, but=("400",))

    def test_a_product_is_created_with_a_secret_and_removed(self):
        operator = self.operator().go("products", "Products")
        operator.fill("[name=product-key]", "meters")
        operator.fill("[name=product-number]", "77")
        operator.submit("[name=product-key]")
        operator.page.until("/^[0-9a-f]{64}$/.test(document.getElementById('made-secret')?.textContent)", "a secret")
        made = self.server.ask("GET", "/v1/products/meters")
        self.assertEqual((made["app_id"], len(made["key_ids"])), (77, 1))
        operator.fill("[name=product-key]", "meters")
        operator.fill("[name=product-number]", "78")
        operator.submit("[name=product-key]")
        operator.says("This product already exists.")
        operator.go("products?product=meters", "Products").says("Heartbeat, shortest")
        operator.click("Add a secret")
        operator.page.until("document.getElementById('made-secret')", "another secret")
        self.assertEqual(len(self.server.ask("GET", "/v1/products/meters")["key_ids"]), 2)
        operator.click("Remove")
        operator.click("Remove product", "dialog button")
        operator.says("Product meters was removed.")
        self.assertEqual(self.server.api("GET", "/v1/products/meters")[0], 404)
        viewer = self.operator(self.token("looks", "read")).go("products", "Products")
        self.assertFalse(viewer.page.run("!!document.querySelector('#page form')"))
        self.calm(operator, viewer, but=("404",))

    def test_events_are_told_as_they_happen(self):
        operator = self.operator().go("events", "Events")
        client = self.mqtt("till-7")
        operator.says("client_connected")
        client.close()
        operator.says("client_disconnected")
        operator.says("peer_closed")
        self.calm(operator)

    def test_a_client_is_traced_from_its_details_and_what_it_says_is_text(self):
        client = self.mqtt("till-1")
        operator = self.operator().go("clients?client_id=till-1", "Clients")
        operator.click("Trace this client")
        operator.says("No trace is running.")
        self.assertEqual(operator.page.run("document.querySelector('#page [name=whom]').value"), "till-1")
        operator.page.key("Enter", "#trace-start")
        operator.says("Tracing client till-1.")
        client.publish("tills/1", "<img src=x onerror=alert(1)>")
        operator.says("PUBLISH")
        operator.says("tills/1")
        operator.says("<img src=x onerror=alert(1)>")
        self.assertEqual(operator.page.run("document.querySelectorAll('#page .trace img').length"), 0)
        operator.click("Pause")
        before = operator.page.run("document.querySelector('.trace').innerText")
        client.publish("tills/2", "hidden for now")
        told = [entry["on"] for entry in self.server.ask("GET", "/v1/audit_log")["entries"]]
        self.assertTrue(any(on.startswith("/v1/trace?client=till-1") for on in told), told)
        self.assertEqual(operator.page.run("document.querySelector('.trace').innerText"), before)
        operator.click("Pause")
        operator.says("hidden for now")
        operator.page.run("""window.saved = []; const made = URL.createObjectURL;
            URL.createObjectURL = blob => { blob.text().then(it => saved.push(it)); return made(blob); }""")
        operator.click("Save as file")
        operator.page.until("saved.length", "a file")
        kinds = [json.loads(line)["kind"] for line in operator.page.run("saved[0]").splitlines()]
        self.assertEqual(kinds, ["followed", "PUBLISH", "PUBACK", "PUBLISH", "PUBACK"])
        operator.click("Clear")
        operator.page.until("document.querySelector('.trace').innerText === ''", "it is clear")
        operator.page.key("Enter", "#trace-end")
        operator.says("Trace of till-1 finished: stopped.")
        poll(lambda: "holdline_traces 0" in self.server.metrics(), "nobody is followed")
        # A wish that makes no sense is told what would.
        operator.go("trace?topic=a%2F%23%2Fb", "Trace")
        operator.page.key("Enter", "#trace-start")
        operator.says("`topic`")
        self.calm(operator, but=("400",))

    def test_a_reload_s_changes_and_warnings_of_the_log_are_shown(self):
        operator = self.operator()
        operator.go("configuration?with=mailbox", "Configuration").says("mailbox_messages_max = 65536")
        operator.says("None: the file and the environment match the running configuration.")
        self.server.configure({**self.CHANGES, "limits": {"mailbox_messages_max": 300}, "server": {"log": "warn"}})
        operator.go("configuration?with=log", "Configuration")
        operator.go("configuration?with=mailbox", "Configuration").says("[limits] mailbox_messages_max")
        operator.says("[server] log")
        operator.click("Check")
        operator.says("No problems and no warnings.")
        operator.click("Reload")
        operator.says("Keys that need a restart keep their values.")
        operator.click("Reload", "dialog button")
        operator.says("Reloaded. Keys changed: 1.")
        self.server.logged("this change needs a restart")
        operator.go("log", "Log")
        operator.says("this change needs a restart key=\"[limits] mailbox_messages_max\"")
        operator.says("key_needs_restart")
        operator.says("A key has a new value in the file, which takes effect at the next restart.")
        event = 'holdline_log_events_total{event="key_needs_restart",level="warn"}'
        self.assertRegex(self.server.metrics(), re.escape(event) + " [1-9]")
        self.server.configure({**self.CHANGES, "limits": {"nonsense": 1}})
        operator.go("configuration", "Configuration").says("The configuration file is invalid:")
        secret = re.search(r"[0-9a-f]{64}", operator.page.run("document.body.textContent"))
        self.assertIsNone(secret, "secrets are hidden")
        self.calm(operator)


    def test_services_say_how_far_behind_they_are(self):
        self.server = self.start({**self.CHANGES}, '''
[[webhook]]
url = "http://127.0.0.1:1/hook"

[bridge.north]
addresses = ["127.0.0.1:1"]
topics = ["# both 0 local/ remote/"]
''')
        operator = self.operator()
        operator.go("services", "Services").says("http://127.0.0.1:1/")
        operator.says("north")
        operator.says("Push gateway")
        hook, = self.server.ask("GET", "/v1/webhooks")["webhooks"]
        self.assertEqual(hook["dead_letters"]["count"], 0)
        gateway = self.server.ask("GET", "/v1/overview")["readings"]["push_gateway_waiting"]
        self.assertEqual(operator.pair("Queued notifications"), str(gateway))
        self.assertEqual(operator.pair("Messages sent"), "0")
        self.calm(operator)
