"""The C library of MIOP 7: its quick start, against a server that is killed."""

from clients.device import QuickStart


class C(QuickStart):
    LIBRARY, LANGUAGE = "miop-c", "c"
    NEEDS = ("cc", "make")

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
