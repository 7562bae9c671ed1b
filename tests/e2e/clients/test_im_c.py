"""The C library of IM: its quick start, against a server that is killed."""

from clients.im_device import ImQuickStart


class ImC(ImQuickStart):
    LIBRARY, LANGUAGE, STATE = "im-c", "c", "ann.state"
    NEEDS = ("cc", "make")

    def place(self, state):
        """Behind the name of the device, and one byte (src/state.c)."""
        at = 5 + int.from_bytes(state[3:5], "big") + 1
        return int.from_bytes(state[at:at + 8], "big")

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
