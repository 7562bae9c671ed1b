"""The Java library of IM: its quick start, against a server that is killed."""

from clients.im_device import ImQuickStart, last_of_lines


class ImJava(ImQuickStart):
    LIBRARY, LANGUAGE = "im-java", "java"
    NEEDS = ("javac", "mvn")

    def place(self, state):
        return last_of_lines(state)

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
