"""The Rust library of MIOP 7: its quick start, against a server that is killed."""

from clients.device import QuickStart


class Rust(QuickStart):
    LIBRARY, LANGUAGE = "miop-rust", "rust"
    NEEDS = ("cargo",)

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
