"""`holdline im`, tried as two people would in two terminals."""

import json
import subprocess

from fixture import BINARY, DEADLINE_S, environment, poll, run
from im.terminal import Terminal


class Tools(Terminal):
    def test_login_says_who_one_is(self):
        self.assertEqual(self.im("login", self.ann),
                         f"{self.ann}@localhost: 0 messages in the inbox, 0 read by this device\n")

    def test_a_message_is_sent_once_and_stands_in_the_history(self):
        self.im("login", self.bob)
        word = "00112233445566778899aabbccddeeff"
        first = self.im("send", self.ann, "--id", word, self.bob, "hello")
        again = self.im("send", self.ann, "--id", word, self.bob, "hello")
        self.assertEqual(first, again)
        self.assertGreater(int(first), 0)
        other = run("im", "send", *self.flags(self.ann), "--id", word, self.bob, "other")
        self.assertEqual((other.returncode, other.stderr), (1, f"not sent to {self.bob}: conflict\n"))
        for number in range(4):
            self.im("send", self.bob, self.ann, f"answer {number}")
        told = self.im("history", self.ann, self.bob, "--count", "3").splitlines()
        self.assertEqual([line.split(": ", 1)[1] for line in told],
                         ["answer 1", "answer 2", "answer 3"])
        told = self.im("history", self.bob, self.ann, "--places", "--before", "3").splitlines()
        self.assertEqual([line.split(" ", 1)[0] for line in told], ["1", "2"])
        self.assertRegex(told[0], rf"^1 \d{{4}}-\d\d-\d\d \d\d:\d\d {self.ann}: hello$")

    def test_what_is_no_account_is_not_written_to(self):
        answer = run("im", "send", *self.flags(self.ann), "nobody.at.all", "hello")
        self.assertEqual(answer.returncode, 1)
        self.assertEqual(answer.stderr, "not sent to nobody.at.all: unknown_account. An account exists "
                         "once its user was created and has logged in\n")
        answer = run("im", "send", *self.flags(self.ann), "No Body", "hello")
        self.assertIn("allowed are a to z", answer.stderr)

    def test_two_people_talk(self):
        self.im("login", self.bob)
        self.im("send", self.ann, self.bob, "before")
        ann, to_ann = self.open("chat", self.ann, self.bob)
        bob, to_bob = self.open("chat", self.bob, self.ann)
        poll(lambda: to_ann and to_bob, "the history is there")
        self.say(ann, "hello bob\x1b[2J")
        poll(lambda: len(to_bob) == 2, "it comes")
        self.say(bob, "hello ann")
        poll(lambda: len(to_ann) == 2, "the answer comes")
        self.say(ann, "/quit")
        bob.stdin.close()
        self.assertEqual((ann.wait(DEADLINE_S), bob.wait(DEADLINE_S)), (0, 0))
        texts = [[line.split(" ", 2)[2] for line in lines] for lines in (to_ann, to_bob)]
        self.assertEqual(texts[0], [f"{self.ann}: before", f"{self.bob}: hello ann"])
        self.assertEqual(texts[1], [f"{self.ann}: before", f"{self.ann}: hello bob\\u001b[2J"])

    def test_a_pipe_is_sent_line_by_line(self):
        self.im("login", self.bob)
        text = "".join(f"line {number}\n" for number in range(200))
        answer = subprocess.run([BINARY, "im", "chat", *self.flags(self.ann), self.bob],
                                input=text, env=environment(), capture_output=True, text=True,
                                timeout=DEADLINE_S, check=False)
        self.assertEqual((answer.returncode, answer.stdout), (0, ""), answer.stderr)
        told = self.im("history", self.bob, self.ann, "--count", "1000").splitlines()
        self.assertEqual([line.split(": ", 1)[1] + "\n" for line in told],
                         text.splitlines(keepends=True))

    def test_listen_prints_what_was_missed_and_what_comes(self):
        self.im("login", self.bob)
        for number in range(3):
            self.im("send", self.ann, self.bob, f"missed {number}")
        told = self.im("listen", self.bob, "--count", "3").splitlines()
        missed = [json.loads(line) for line in told]
        self.assertEqual([line["text"] for line in missed], [f"missed {n}" for n in range(3)])
        self.assertEqual([line["place"] for line in missed], [1, 2, 3])
        self.assertEqual(missed[0]["from"], f"{self.ann}@localhost")
        listener, lines = self.open("listen", self.bob)
        self.im("send", self.ann, self.bob, "live")
        poll(lambda: lines, "it comes")
        self.assertEqual([json.loads(line)["text"] for line in lines], ["live"],
                         "what was printed before does not come again")
        listener.kill()

    def test_who_nobody_answers_is_told_so(self):
        answer = run("im", "login", "--port", "1", "--user", "ann")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("im://localhost:1: ", answer.stderr)
        answer = run("im", "login")
        self.assertEqual((answer.returncode, answer.stderr),
                         (1, "user name missing: give --user NAME\n"))
