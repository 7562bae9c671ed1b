"""What messages can do on the chat page in headless Chromium: typing, edits, reactions, and where
a conversation opens."""

import unittest

from im.page import PageCase
from im.test_page_list import row

LAST = "document.querySelector('#rows li:last-child')"


class Words(PageCase):
    def both(self):
        ann, bob = self.person("ann"), self.person("bob")
        ann.write_to("bob")
        ann.say("first")
        bob.until(row("ann"), "he has it")
        bob.choose("ann")
        bob.until(f"{LAST}?.querySelector('.text').textContent === 'first'", "it is shown")
        return ann, bob

    def test_who_types_is_told_until_something_is_said(self):
        ann, bob = self.both()
        typing = "document.getElementById('typing').textContent"
        ann.run("(() => { const it = document.getElementById('text'); it.value = 'h'; "
                "it.dispatchEvent(new Event('input', { bubbles: true })); })()")
        bob.until(f"{typing} === 'ann is typing …'", "he is told")
        ann.say("hello")
        bob.until(f"{typing} === ''", "she has said it")
        self.calm(ann, bob)

    def test_a_message_is_edited_and_reacted_to_by_its_menu(self):
        ann, bob = self.both()
        self.chooses(ann, "first", "Edit")
        ann.until("!document.getElementById('editing').hidden", "it says so")
        ann.run("document.getElementById('text').select()")
        ann.say("second")
        for page in (ann, bob):
            page.until(f"{LAST}?.querySelector('.text').textContent === 'second' && "
                       f"/edited/.test({LAST}.querySelector('small').textContent)", "it is edited")
        self.chooses(bob, "second", "👍")
        for page in (ann, bob):
            page.until(f"{LAST}.querySelector('.reactions').textContent === '👍 1'", "he reacts")
        ann.open()
        ann.until("!document.getElementById('room').hidden", "in again without a word")
        ann.choose("bob")
        ann.until(f"{LAST}?.querySelector('.text').textContent === 'second' && "
                  f"{LAST}.querySelector('.reactions').textContent === '👍 1'", "it stays so")
        self.chooses(bob, "second", "👍")
        ann.until(f"{LAST}.querySelector('.reactions').textContent === ''", "taken back")
        self.calm(ann, bob)

    def writes(self, page, text):
        """A text is written into the field, and not sent."""
        page.run("(() => { const it = document.getElementById('text'); "
                 f"it.value = {text!r}; it.setSelectionRange(it.value.length, it.value.length); "
                 "it.dispatchEvent(new Event('input', { bubbles: true })); })()")

    def test_a_message_quotes_another_one_that_is_shown_as_it_is_now(self):
        ann, bob = self.both()
        self.chooses(bob, "first", "Quote")
        bob.until("document.getElementById('quoted').textContent === 'first'", "it says so")
        bob.say("indeed")
        quote = f"{LAST}?.querySelector('.quote').textContent"
        for page in (ann, bob):
            page.until(f"{LAST}?.querySelector('.text').textContent === 'indeed' && "
                       f"{quote} === 'ann: first'", "it quotes it")
        self.assertTrue(bob.run("document.getElementById('quoting').hidden"))
        self.chooses(ann, "first", "Edit")
        ann.run("document.getElementById('text').select()")
        ann.say("second")
        for page in (ann, bob):
            page.until(f"{quote} === 'ann: second'", "it is what it is now")
        self.chooses(ann, "second", "Delete for everyone")
        for page in (ann, bob):
            page.until(f"/deleted a message/.test({quote})", "nothing of it is left")
        self.calm(ann, bob)

    def test_a_name_is_completed_and_whoever_is_mentioned_sees_it(self):
        ann, bob = self.both()
        ann.until("!document.getElementById('conversation').hidden", "it is open")
        ann.run("(() => { document.getElementById('group-title').value = 'lunch'; "
                "document.getElementById('names').value = 'bob'; "
                "document.getElementById('make').requestSubmit(); })()")
        ann.until("document.getElementById('with').textContent === 'lunch'", "it is made")
        ann.until("document.querySelectorAll('#members li').length === 2", "who is in it is known")
        self.writes(ann, "look @b")
        offered = "[...document.querySelectorAll('#offered li')].map(it => it.textContent).join()"
        ann.until(f"{offered} === 'bob'", "his name is offered")
        ann.key("Enter", "#text")
        ann.until("document.getElementById('text').value === 'look @bob '", "it is completed")
        ann.key("Enter", "#text")
        badge = ("[...document.querySelectorAll('#people li')]"
                 ".find(it => /lunch/.test(it.textContent))?.querySelector('.unread')?.textContent")
        bob.until(f"/^@ /.test({badge} ?? '')", "the list says so")
        bob.choose("lunch")
        bob.until(f"{LAST}?.classList.contains('mentioned')", "it stands out")
        ann.until(f"!{LAST}?.classList.contains('mentioned')", "not to her")
        self.calm(ann, bob)

    def test_what_was_said_is_found_and_leads_to_where_it_stands(self):
        ann, bob = self.both()
        for number in range(70):
            self.im("send", "ann", "bob", "Needle 今天" if number == 3 else f"straw {number}")
        bob.until(f"{LAST}?.querySelector('.text').textContent === 'straw 69'", "all is there")
        bob.run("(() => { document.getElementById('sought').value = 'needle'; "
                "document.getElementById('seek').requestSubmit(); })()")
        bob.until("document.querySelectorAll('#found li').length === 1", "it is found")
        bob.until("document.getElementById('search-about').textContent === ''", "it is over")
        bob.run("document.querySelector('#found button').click()")
        bob.until("document.querySelector('#rows li.sought .text')?.textContent === 'Needle 今天'",
                  "it is shown where it stands")
        bob.run("(() => { document.getElementById('sought').value = 'nowhere'; "
                "document.getElementById('seek').requestSubmit(); })()")
        bob.until("document.getElementById('search-about').textContent === 'No results.'",
                  "nothing is told, too")
        self.calm(ann, bob)

    def test_a_conversation_opens_at_the_first_message_that_was_not_read(self):
        self.person("bob")  # an account begins with a login
        for number in range(120):
            self.im("send", "ann", "bob", f"text {number}")
        self.im("read", "bob", "ann", "--upto", "40")
        bob = self.person("bob")
        bob.until(row("ann"), "he has it")
        bob.choose("ann")
        new = ("[...document.querySelectorAll('#rows li')].find(it => "
               "it.querySelector('.text').textContent === 'New messages')")
        bob.until(new, "a line says where")
        behind = f"{new}.nextElementSibling.querySelector('.text').textContent"
        self.assertEqual(bob.run(behind), "text 40")
        bob.until(f"Math.abs({new}.getBoundingClientRect().top - "
                  "document.getElementById('scroll').getBoundingClientRect().top) < 60",
                  "it stands at the top")
        self.calm(bob)


if __name__ == "__main__":
    unittest.main()
