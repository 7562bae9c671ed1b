"""The Kotlin libraries: their quick starts, against a server that is killed."""

import unittest

from clients import kotlin
from clients.device import QuickStart
from clients.im_device import ImQuickStart
from clients.test_im_java import last_of_lines


@unittest.skipUnless(kotlin.HAS_TOOLS, "a JDK or Maven is missing")
class MiopKotlin(QuickStart):
    LIBRARY, LANGUAGE = "miop-kotlin", "kotlin"

    def command(self, folder, source):
        return kotlin.compiled(self, self.LIBRARY, source), {}

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()


@unittest.skipUnless(kotlin.HAS_TOOLS, "a JDK or Maven is missing")
class ImKotlin(ImQuickStart):
    LIBRARY, LANGUAGE = "im-kotlin", "kotlin"

    def command(self, folder, source):
        return kotlin.compiled(self, self.LIBRARY, source), {}

    def last(self):
        return last_of_lines(self.folder)

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
