"""The Go library of IM: its quick start, against a server that is killed."""

from clients.im_device import ImQuickStart


class ImGo(ImQuickStart):
    LIBRARY, LANGUAGE = "im-go", "go"
    NEEDS = ("go",)

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
