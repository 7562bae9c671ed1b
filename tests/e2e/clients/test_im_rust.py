"""The Rust library of IM: its quick start, against a server that is killed."""

from clients.im_device import ImQuickStart, last_of_lines


class ImRust(ImQuickStart):
    LIBRARY, LANGUAGE, STATE = "im-rust", "rust", "ann.state"
    NEEDS = ("cargo",)

    def place(self, state):
        return last_of_lines(state)

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
