"""The archive of messages in a real MariaDB: every one that was answered is there once, whoever is
killed, and what was called back says nothing any more."""

import threading
import unittest

from database.house import Case
from database.mariadb import PASSWORD
from fixture import poll
from im.wire import Device


# Kinds of messages that amend others (IM 16).
EDIT, REACTION = 6, 7


def amend(device, to, message, kind, text):
    """Edits a message, or reacts to it."""
    device.send(to, text, kind=kind, extra=f"{message.seq} {message.id}".encode())


class Archive(Case):
    def node(self, data=None, archive=True, **store):
        """A server that lets anybody in from here, and has an archive."""
        changes = {"mysql": {"password": PASSWORD, "timeout_ms": 2000}, "store": store,
                   "chat": {"archive": self.database.url} if archive else None}
        return self.start(changes, data=data)

    def person(self, server, name):
        link = Device(server.ports["any"])
        self.addCleanup(link.close)
        link.login(name)
        return link

    def account(self, server, name):
        """Somebody who was here once: who is written to must be known."""
        self.person(server, name).close()
        return name

    def drained(self, server, count):
        """So many messages were taken, and none waits."""
        def is_so():
            return (server.reading("archive_waiting"),
                    int(self.database.one("SELECT COUNT(*) FROM messages"))) == (0, count)
        poll(lambda: server.reading("archive_up") == 1, "it takes messages", 30)
        poll(is_so, f"{count} messages are there", 30)

    def test_what_is_answered_is_there_in_order(self):
        server = self.node()
        ann, bob = self.person(server, "ann"), self.person(server, "bob")
        sent = [ann.send("bob", f"hello {number}, 世界", extra=b"\0\xff") for number in range(300)]
        sent.append(bob.send("ann", "hi"))
        self.drained(server, 301)
        rows = self.database.ask("SELECT id, sender, receiver, device, kind, counts, text, "
                                 "HEX(extra) FROM messages ORDER BY id")
        self.assertEqual([int(row[0]) for row in rows], [one.id for one in sent])
        self.assertEqual(rows[0][1:], ("ann@localhost", "bob@localhost", "phone", "1", "1",
                                       "hello 0, 世界", "00FF"))
        self.assertEqual(self.database.one("SELECT COUNT(DISTINCT conversation) FROM messages"),
                         "1")
        self.assertEqual(server.reading("archive_taken_total"), 301)

    def test_what_is_called_back_loses_its_content_there(self):
        server = self.node()
        ann = self.person(server, "ann")
        self.account(server, "bob")
        kept, gone = ann.send("bob", "kept"), ann.send("bob", "a secret", extra=b"secret, too")
        self.drained(server, 2)
        self.assertEqual(ann.recall("bob", gone.seq).seq, 3)
        self.drained(server, 3)
        row, = self.database.ask(f"SELECT text, extra, recalled_by FROM messages "
                                 f"WHERE id = {gone.id}")
        self.assertEqual(row[:2], ("", ""))
        self.assertGreater(int(row[2]), gone.id)
        self.assertEqual(self.database.one("SELECT COUNT(*) FROM messages "
                                           "WHERE text LIKE '%secret%'"), "0")
        self.assertEqual(self.database.one(f"SELECT text FROM messages WHERE id = {kept.id}"),
                         "kept")

    def test_what_is_edited_or_reacted_to_is_there_as_it_is_now(self):
        server = self.node()
        ann, bob = self.person(server, "ann"), self.person(server, "bob")
        first = ann.send("bob", "first")
        other = ann.send("bob", "other")
        amend(ann, "bob", first, EDIT, "second")
        amend(bob, "ann", first, REACTION, "👍 🎉")
        amend(ann, "bob", first, EDIT, "third")
        amend(bob, "ann", other, REACTION, "👍")
        amend(bob, "ann", other, REACTION, "")
        self.drained(server, 7)
        rows = self.database.ask("SELECT text, edited_ms > 0, reactions FROM messages "
                                 "WHERE kind = 1 ORDER BY id")
        self.assertEqual(rows, [("third", "1", '[{"by":"bob@localhost","emoji":"👍 🎉"}]'),
                                ("other", "NULL", "NULL")])
        self.assertEqual(self.database.ask("SELECT text FROM messages WHERE kind = 6"),
                         [("third",), ("third",)])
        ann.recall("bob", first.seq)
        self.drained(server, 8)
        self.assertEqual(self.database.ask("SELECT text, edited_ms, reactions FROM messages "
                                           f"WHERE id = {first.id}"), [("", "NULL", "NULL")])
        self.assertEqual(self.database.one("SELECT COUNT(*) FROM messages "
                                           "WHERE text LIKE '%third%'"), "0")

    def test_tables_of_a_build_before_are_brought_up(self):
        self.drained(self.node(), 0)
        self.database.ask("ALTER TABLE messages DROP COLUMN edited_ms, DROP COLUMN reactions")
        self.database.ask("DELETE FROM holdline_steps WHERE part = 'archive' AND step = 2")
        server = self.node()
        ann = self.person(server, "ann")
        self.account(server, "bob")
        amend(ann, "bob", ann.send("bob", "first"), EDIT, "second")
        self.drained(server, 2)
        self.assertEqual(self.database.one("SELECT text FROM messages WHERE kind = 1"), "second")

    def test_its_death_half_way_loses_and_doubles_nothing(self):
        server = self.node()
        people = [(self.person(server, f"a{number}"), self.account(server, f"b{number}"))
                  for number in range(4)]
        answered, half, gone = [], threading.Event(), threading.Event()

        def talk(link, to):
            for number in range(200):
                answered.append(link.send(to, f"{number}").id)
                if number == 100:
                    half.set()
                    gone.wait(30)
        threads = [threading.Thread(target=talk, args=person) for person in people]
        for thread in threads:
            thread.start()
        half.wait(30)
        self.database.kill()
        gone.set()
        for thread in threads:
            thread.join()
        self.assertEqual(len(answered), 800, "all are answered without it")
        poll(lambda: server.reading("archive_up") == 0, "it is told")
        poll(lambda: server.reading("archive_waiting") > 0, "they wait")
        # The server is killed, too, before it comes back.
        server.kill()
        server.start()
        poll(lambda: server.reading("archive_waiting") >= 1, "they wait in the log")
        self.database.start()
        self.drained(server, 800)
        ids = sorted(int(row[0]) for row in self.database.ask("SELECT id FROM messages"))
        self.assertEqual(ids, sorted(answered))
        self.assertEqual(server.reading("archive_lost_total"), 0)

    def test_another_number_of_shards_leaves_nothing_behind(self):
        server = self.node()
        self.database.kill()
        people = [(self.person(server, f"a{number}"), self.account(server, f"b{number}"))
                  for number in range(6)]
        sent = sorted(link.send(to, "hello").id for link, to in people)
        server.stop()
        server.configure({"mysql": {"password": PASSWORD}, "server": {"shards": 3},
                          "chat": {"archive": self.database.url}})
        server.start()
        self.database.start()
        self.drained(server, 6)
        self.assertEqual(
            sorted(int(row[0]) for row in self.database.ask("SELECT id FROM messages")), sent)

    def test_what_is_dropped_for_it_is_counted_and_told(self):
        server = self.node()
        self.database.kill()
        ann = self.person(server, "ann")
        self.account(server, "bob")
        for number in range(20):
            ann.send("bob", f"{number}")
        server.stop()
        server.configure({"mysql": {"password": PASSWORD}, "store": {"archive_count_max": 5},
                          "chat": {"archive": self.database.url}})
        server.start()
        self.person(server, "ann").send("bob", "one more")
        self.database.start()
        poll(lambda: server.reading("archive_lost_total") > 0, "it is counted", 30)
        server.logged("messages for the archive were lost")
        taken = poll(lambda: server.reading("archive_waiting") == 0
                     and server.reading("archive_taken_total"), "the rest is there", 30)
        self.assertEqual(server.reading("archive_lost_total") + taken, 21)
        # Who talks has all of it.
        self.assertEqual(len(self.person(server, "bob").pull_all()), 21)

    def test_without_the_line_what_waits_is_dropped_and_told(self):
        server = self.node()
        self.database.kill()
        self.account(server, "bob")
        self.person(server, "ann").send("bob", "hello")
        server.stop()
        server.configure({})
        server.start()
        server.logged("messages are stored for an archive that is no longer configured")
        server.stop()
        self.database.start()
        server.configure({"mysql": {"password": PASSWORD}, "chat": {"archive": self.database.url}})
        server.start()
        self.person(server, "ann").send("bob", "later")
        self.drained(server, 1)
        self.assertEqual(server.reading("archive_lost_total"), 0)


if __name__ == "__main__":
    unittest.main()
