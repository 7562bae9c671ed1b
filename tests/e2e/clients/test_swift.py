"""The Swift library of MIOP 7: its quick start, against a server that is killed."""

import os
import shutil
import unittest
from unittest import mock

import fixture
from clients.device import QuickStart

# The compiler that the conformance suite has fetched, if the system has none.
TREE = os.path.join(fixture.TARGET, "swift")


@unittest.skipUnless(shutil.which("swiftc") or os.path.isdir(TREE), "no compiler of Swift")
class Swift(QuickStart):
    LIBRARY, LANGUAGE = "miop-swift", "swift"

    def setUp(self):
        super().setUp()
        tree = mock.patch.dict(os.environ, {"HOLDLINE_SWIFT": os.path.abspath(TREE)})
        tree.start()
        self.addCleanup(tree.stop)

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
