"""The Kotlin libraries: their quick starts, against a server that is killed."""

from clients.device import QuickStart
from clients.im_device import ImQuickStart, last_of_lines


class MiopKotlin(QuickStart):
    LIBRARY, LANGUAGE = "miop-kotlin", "kotlin"
    NEEDS = ("javac", "mvn")

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()


class ImKotlin(ImQuickStart):
    LIBRARY, LANGUAGE = "im-kotlin", "kotlin"
    NEEDS = ("javac", "mvn")

    def place(self, state):
        return last_of_lines(state)

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
