"""The JavaScript library of IM: its quick start, against a server that is killed."""

import json

from clients.im_device import ImQuickStart


class ImJs(ImQuickStart):
    LIBRARY, LANGUAGE = "im-js", "js"
    NEEDS = ("node", "npm")

    def place(self, state):
        items = json.loads(state).items()
        return max((int(value) for key, value in items if key.endswith(":last")), default=0)

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
