"""The chat page's list of conversations in headless Chromium: what is unread, read and how kept."""

import os
import unittest

from fixture import poll
from im.page import AXE, CONTRAST, PAGE, ROWS, PageCase, offer

TITLE = "document.title"
HIDE_TAB = """(() => {
  Object.defineProperty(document, 'visibilityState', { value: '%s', configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
})()"""


def row(name):
    """The button of somebody in the list."""
    return ("[...document.querySelectorAll('#people button')].find("
            f"it => it.firstChild.textContent === '{name}')")


def part(name, selector):
    """The text of a part of it; undefined: there is none."""
    return f"{row(name)}?.querySelector('{selector}')?.textContent"


DELETE = offer("Delete for everyone")


class Lists(PageCase):
    def again(self, page):
        page.open()
        page.until("!document.getElementById('room').hidden", "in again without a word")

    def keeps(self, page, setting):
        """Chooses a setting of the conversation that is looked at, by the menu in its head."""
        page.until("!document.getElementById('options').hidden", "it can be kept otherwise")
        page.run("document.querySelector('#options summary').click()")
        page.run(f"document.getElementById('{setting}').click()")
        self.assertFalse(page.run("document.getElementById('options').open"), "it closes")

    def names(self, page, expected):
        found = ("[...document.querySelectorAll('#people button')]"
                 ".map(it => it.firstChild.textContent).join()")
        page.until(f"{found} === '{','.join(expected)}'", f"the list is {expected}")

    def unread(self, page, name, count, deadline_s=30):
        """How much is unread: the number, and for ears what it is."""
        wanted = f"'{count} unread'" if count else "undefined"
        page.until(f"{row(name)} && {part(name, '.unread')} === {wanted}", f"{count} of {name}",
                   deadline_s)

    # -- what is unread

    def test_what_came_while_one_was_away_is_unread_until_it_was_seen_on_any_device(self):
        self.im("login", "bob")
        ann = self.person("ann")
        ann.write_to("bob")
        for number in range(3):
            ann.say(f"<i>{number}</i>")
        poll(lambda: '"unread":3' in self.im("conversations", "bob", "--json").replace(" ", ""),
             "the server counts them")
        bob, tablet = self.person("bob"), self.person("bob")
        for page in (bob, tablet):
            self.unread(page, "ann", 3)
            page.until(f"{TITLE} === '(3) Holdline Chat'", "the title has the number")
            page.until(f"{part('ann', '.quiet')} === '<i>2</i>'", "what was said last")
        ann.until("/(sent|delivered)$/.test(document.querySelector('#rows li:last-child small').textContent)",
                  "it is not read")
        bob.choose("ann")
        for page in (bob, tablet):
            self.unread(page, "ann", 0)
            page.until(f"{TITLE} === 'Holdline Chat'", "nothing is unread")
        ann.until("[...document.querySelectorAll('#rows small')].every("
                  "it => it.textContent.endsWith('read'))", "he has read all of it")
        self.again(ann)
        ann.choose("bob")
        ann.until("document.querySelectorAll('#rows small').length === 3 && "
                  "/read$/.test(document.querySelector('#rows small').textContent)", "it stays so")
        self.server.kill()
        self.server.start()
        self.assertIn('"read":3', self.im("conversations", "bob", "--json").replace(" ", ""))

    def test_only_what_stands_on_a_page_that_is_looked_at_is_read(self):
        ann, bob = self.person("ann"), self.person("bob")
        ann.write_to("bob")
        ann.say("first")
        bob.choose("ann")
        bob.shows(["theirs: first"])
        self.unread(bob, "ann", 0)
        bob.run(HIDE_TAB % "hidden")
        for number in range(60):
            ann.say(f"line {number}\n\n")
        self.unread(bob, "ann", 60)
        bob.run(HIDE_TAB % "visible")
        self.unread(bob, "ann", 0)
        bob.run("document.getElementById('scroll').scrollTop = 200")
        ann.say("below")
        bob.until(f"{ROWS}.length === 62", "it is there")
        self.unread(bob, "ann", 1)
        ann.until("/(sent|delivered)$/.test(document.querySelector('#rows li:last-child small').textContent)",
                  "he has not read it")
        bob.until("!document.getElementById('newest').hidden", "it is offered")
        bob.run("document.getElementById('newest').click()")
        bob.until("document.getElementById('newest').hidden", "he is there")
        self.unread(bob, "ann", 0)
        ann.until("/read$/.test(document.querySelector('#rows li:last-child small').textContent)",
                  "he has")
        self.calm(ann, bob)

    def test_a_list_goes_on_over_a_lost_connection(self):
        ann, bob = self.person("ann"), self.person("bob")
        ann.write_to("bob")
        ann.say("one")
        self.unread(bob, "ann", 1)
        address = "{}:{}".format(*self.server.ports["im-ws"])
        self.server.kill()
        bob.until("/lost|Connecting/.test(document.getElementById('banner').textContent)", "told")
        self.unread(bob, "ann", 1)
        bob.choose("ann")
        self.server.configure({"listen.im-ws": {**PAGE["listen.im-ws"], "address": address}})
        self.server.start()
        self.unread(bob, "ann", 0, 90)
        ann.until("/read$/.test(document.querySelector('#rows li small').textContent)", "told", 90)

    # -- how conversations are kept

    def test_pinned_muted_and_hidden_hold_on_all_devices_and_after_a_reload(self):
        bob, tablet = self.person("bob"), self.person("bob")
        for name in ("ann", "carol"):
            self.im("send", name, "bob", f"from {name}")
        self.names(bob, ["carol", "ann"])
        bob.choose("ann")
        self.keeps(bob, "pin")
        for page in (bob, tablet):
            self.names(page, ["ann", "carol"])
            page.until(f"/pinned/.test({part('ann', '.marks')})", "told to ears, too")
        bob.choose("carol")
        self.keeps(bob, "mute")
        self.unread(tablet, "carol", 0)
        bob.run("document.getElementById('back').click()")
        self.im("send", "carol", "bob", "psst")
        for page in (bob, tablet):
            self.unread(page, "carol", 1)
            page.until(f"{row('carol')}.querySelector('.unread.muted')", "it makes no noise")
            page.until(f"{TITLE} === 'Holdline Chat'", "not in the title either")
        bob.choose("carol")
        self.keeps(bob, "hide")
        bob.until("document.getElementById('conversation').hidden", "he is back")
        for page in (bob, tablet):
            self.names(page, ["ann"])
        self.again(tablet)
        self.names(tablet, ["ann"])
        tablet.write_to("carol")
        tablet.shows(["theirs: from carol", "theirs: psst"])
        tablet.until("document.getElementById('hide').textContent === 'Show in list'", "it is known")
        tablet.key("Escape", "#text")
        self.im("send", "carol", "bob", "still there?")
        for page in (bob, tablet):
            self.names(page, ["ann", "carol"])
        self.calm(bob, tablet)

    def test_a_draft_is_on_the_other_device_until_it_is_sent(self):
        self.im("login", "ann")
        bob, tablet = self.person("bob"), self.person("bob")
        self.im("send", "ann", "bob", "Will you come?")
        bob.choose("ann")
        bob.type("#text", "Yes, <b>at</b>")
        tablet.until(f"{part('ann', '.quiet')} === 'Draft: Yes, <b>at</b>'", "it is begun")
        tablet.choose("ann")
        tablet.until("document.getElementById('text').value === 'Yes, <b>at</b>'", "it goes on")
        tablet.type("#text", " eight")
        bob.until("document.getElementById('text').value === 'Yes, <b>at</b> eight'", "and on")
        self.again(bob)
        bob.choose("ann")
        bob.until("document.getElementById('text').value === 'Yes, <b>at</b> eight'", "it is kept")
        bob.key("Enter", "#text")
        bob.shows(["theirs: Will you come?", "own: Yes, <b>at</b> eight"])
        tablet.shows(["theirs: Will you come?", "own: Yes, <b>at</b> eight"])
        tablet.until("document.getElementById('text').value === ''", "nothing is left of it")
        poll(lambda: '"draft":""' in self.im("conversations", "bob", "--json").replace(" ", ""),
             "nor on the server")
        self.calm(bob, tablet)

    def test_a_group_has_its_title_where_nobody_told_it(self):
        ann, bob = self.person("ann"), self.person("bob")
        group = self.im("groups make", "ann", "--title", "Lunch <b>").strip()
        self.im("groups add", "ann", group, "bob")
        for page in (ann, bob):
            page.until(row("Lunch <b>"), "it is called so")
        bob.until(f"{part('Lunch <b>', '.quiet')} === 'ann added you'", "what happened last")
        self.again(bob)
        bob.until(f"{part('Lunch <b>', '.quiet')} === 'ann changed the group'", "what is known")
        self.calm(ann, bob)

    # -- recall

    def test_an_own_message_is_called_back_by_its_menu(self):
        ann, bob = self.person("ann", width=375), self.person("bob")
        ann.write_to("bob")
        for text in ("oops", "well"):
            ann.say(text)
        bob.choose("ann")
        bob.shows(["theirs: oops", "theirs: well"])
        self.assertFalse(bob.run(f"!!{DELETE}"), "it is not his")
        ann.until("document.querySelectorAll('#rows .menu').length === 2", "both are stored")
        ann.run("document.querySelector('#rows .menu summary').focus()")
        ann.key("Enter", "#rows .menu summary")
        ann.until("document.querySelector('#rows .menu').open", "by the keyboard")
        self.narrow(ann)
        ann.key("Escape", "#rows .menu[open] button")
        ann.until("!document.querySelector('#rows .menu').open", "it closes")
        self.assertTrue(ann.run("document.body.classList.contains('talking')"), "and no more does")
        self.assertEqual(ann.run("document.activeElement.tagName"), "SUMMARY")
        ann.run("document.querySelector('#rows .menu').open = true")
        self.chooses(ann, "oops", "Delete for everyone")
        told = "change: ann deleted a message"
        ann.shows(["change: You deleted a message", "own: well"])
        bob.shows([told, "theirs: well"])
        bob.until(f"{part('ann', '.quiet')} === 'ann deleted a message'", "in the list, too")
        self.again(bob)
        bob.choose("ann")
        bob.shows([told, "theirs: well"])
        self.assertNotIn("oops", bob.run("document.documentElement.outerHTML"))
        self.calm(ann, bob)

    def test_what_is_too_old_is_not_called_back_and_not_offered_any_more(self):
        self.server = self.start({**PAGE, "chat": {"recall_s_max": 0}})
        ann = self.person("ann")
        self.im("login", "bob")
        ann.write_to("bob")
        ann.say("for good")
        self.chooses(ann, "for good", "Delete for everyone")
        ann.until("/too old/.test(document.getElementById('say-fault').textContent)", "told so")
        ann.until(f"!{DELETE}", "it is not offered")
        ann.shows(["own: for good"])
        self.calm(ann)

    # -- for everybody

    def furnished(self):
        """Bob with a list of everything: pinned, muted, unread, and an own message."""
        bob = self.person("bob")
        for name in ("ann", "carol", "dave"):
            self.im("send", name, "bob", f"from {name}")
        bob.choose("carol")
        self.keeps(bob, "mute")
        bob.until(f"{row('carol')}.querySelector('.marks').textContent.includes('muted')", "muted")
        bob.choose("ann")
        self.keeps(bob, "pin")
        bob.say("mine")
        bob.until("document.querySelector('#rows .menu')", "it is stored")
        self.im("send", "carol", "bob", "more")
        self.unread(bob, "carol", 1)
        self.unread(bob, "dave", 1)
        return bob

    def test_axe_finds_nothing_serious(self):
        if not os.path.exists(AXE):
            raise unittest.SkipTest("axe-core could not be installed: NOTHING WAS LOOKED AT")
        bob = self.furnished()
        for scheme in ("light", "dark"):
            bob.call("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": scheme}])
            self.assertEqual(bob.findings(), [], scheme)
            bob.run("document.querySelector('#options').open = true")
            self.assertEqual(bob.findings(), [], f"{scheme}, with a menu")
            bob.run("document.querySelector('#options').open = false")
        bob.run("document.getElementById('leave').click()")
        bob.until("!document.getElementById('door').hidden", "the door")
        self.assertEqual(bob.findings(), [], "the door")

    def test_menus_and_badges_have_names_and_are_to_be_seen_in_light_and_dark(self):
        bob = self.furnished()
        for scheme in ("light", "dark"):
            bob.call("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": scheme}])
            for menu in ("#options", "#rows .menu"):
                bob.run(f"document.querySelector('{menu} summary').click()")
                bob.until(f"document.querySelector('{menu}').open", "a menu is open")
                nodes = bob.call("Accessibility.getFullAXTree")["nodes"]
                used = [(node["role"]["value"], node.get("name", {}).get("value"))
                        for node in nodes if not node.get("ignored")
                        and node["role"]["value"] in {"button", "DisclosureTriangle", "textbox"}]
                self.assertGreaterEqual(len([it for it in used if it[0] != "textbox"]), 8, used)
                self.assertEqual([it for it in used if not it[1]], [])
                contrast = bob.run(CONTRAST)
                self.assertEqual([it for it in contrast if it[1] < 4.5], [], scheme)
            bob.run("document.querySelector('#who').dispatchEvent("
                    "new PointerEvent('pointerdown', { bubbles: true }))")
            self.assertFalse(bob.run("!!document.querySelector('.menu[open]')"), "it closes")
        size = bob.run("(() => { const it = document.querySelector('#rows summary')"
                       ".getBoundingClientRect(); return Math.min(it.width, it.height); })()")
        self.assertGreaterEqual(size, 24, "a finger finds it (WCAG 2.2, 2.5.8)")
        self.calm(bob)
