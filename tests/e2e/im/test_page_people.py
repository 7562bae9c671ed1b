"""People on the chat page in headless Chromium: links, contacts, presence and notifications."""

import json

from im.page import PageCase
from im.test_page_list import row

# The page believes that nobody looks at it, and notes its notifications instead of showing them.
HIDDEN = """(() => {
  window.notices = [];
  const Noted = function (title, { body }) { window.notices.push([title, body]); };
  Noted.permission = "granted";
  Noted.requestPermission = async () => "granted";
  Object.defineProperty(window, "Notification", { value: Noted, configurable: true });
  Object.defineProperty(document, "visibilityState", { get: () => window.looks ?? "visible" });
})()"""


class People(PageCase):
    def test_web_addresses_are_links_that_tell_nothing_of_the_page(self):
        ann, bob = self.person("ann"), self.person("bob")
        ann.write_to("bob")
        ann.say("see https://a.example/x_(y). Not javascript:alert(1) or http://u@b.example")
        bob.until(row("ann"), "he has it")
        bob.choose("ann")
        links = ("JSON.stringify([...document.querySelectorAll('#rows a')]"
                 ".map(it => [it.href, it.target, it.rel, it.textContent]))")
        wanted = json.dumps([["https://a.example/x_(y)", "_blank", "noopener noreferrer",
                              "https://a.example/x_(y)"]], separators=(",", ":"))
        for page in (ann, bob):
            page.until(f"{links} === {json.dumps(wanted)}", "one link")
        self.calm(ann, bob)

    def test_contacts_see_each_other_come_and_go(self):
        ann, bob = self.person("ann"), self.person("bob")
        ann.write_to("bob")
        ann.say("hello")
        standing = "document.getElementById('standing').textContent"
        self.assertEqual(ann.run(standing), "", "strangers are told nothing")
        ann.run("document.getElementById('befriend').click()")
        ann.until("/request sent/.test(document.getElementById('contact-text').textContent)", "sent")
        bob.until(row("ann"), "he has it")
        bob.choose("ann")
        bob.until("/ann wants to be your contact/.test("
                  "document.getElementById('contact-text').textContent)", "he is asked")
        self.assertEqual(bob.findings(), [])
        bob.run("document.getElementById('contact-yes').click()")
        for page, other in ((ann, "bob"), (bob, "ann")):
            page.until(f"{standing} === 'online'", "they see each other")
            page.until(f"{row(other)}.querySelector('.avatar.online')", "in the list, too")
            page.until("document.getElementById('contact').hidden", "nothing is left to answer")
        bob.run("document.getElementById('leave').click()")
        ann.until(f"{standing} === 'offline'", "he went")
        self.calm(ann, bob)

    def test_notifications_are_for_who_wants_them_and_does_not_look(self):
        ann, bob = self.person("ann"), self.person("bob")
        bob.run(HIDDEN)
        ann.write_to("bob")
        mode = "document.getElementById('notify').textContent"
        notices = "JSON.stringify(window.notices)"
        said = 0

        def says(text):
            nonlocal said
            said += 1
            ann.say(text)
            bob.until(f"{row('ann')}?.querySelector('.unread')?.textContent.startsWith('{said}')",
                      "it has come")

        bob.run("window.looks = 'hidden'")
        says("one")
        self.assertEqual(bob.run(notices), "[]", "nobody has turned them on")
        self.assertEqual(bob.run(mode), "Turn on notifications")
        bob.run("document.getElementById('notify').click()")
        bob.until(f"{mode} === 'Turn off notifications'", "they are on")
        says("two")
        self.assertEqual(json.loads(bob.run(notices)), [["ann", "two"]])
        bob.run("window.looks = 'visible'")
        says("three")
        self.assertEqual(json.loads(bob.run(notices)), [["ann", "two"]], "he looks")
        bob.run("window.looks = 'hidden'; window.notices = [];"
                "document.getElementById('notify-text').click()")
        bob.until("/^Show/.test(document.getElementById('notify-text').textContent)", "no text")
        says("a secret")
        self.assertEqual(json.loads(bob.run(notices)), [["Holdline Chat", "New message"]])
        self.calm(ann, bob)
