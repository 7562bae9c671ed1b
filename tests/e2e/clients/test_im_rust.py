"""The Rust library of IM: its quick start, against a server that is killed."""

import os
import re
import shutil
import subprocess
import unittest

from clients.device import CLIENTS
from clients.im_device import ImQuickStart

CARGO = os.environ.get("CARGO", "cargo")


@unittest.skipUnless(shutil.which(CARGO), "cargo is not installed")
class ImRust(ImQuickStart):
    LIBRARY, LANGUAGE, STATE = "im-rust", "rust", "ann.state"

    def command(self, folder, source):
        library = os.path.join(CLIENTS, self.LIBRARY)
        os.makedirs(os.path.join(folder, "src"))
        with open(os.path.join(folder, "src", "main.rs"), "w", encoding="utf-8") as file:
            file.write(source)
        with open(os.path.join(folder, "Cargo.toml"), "w", encoding="utf-8") as file:
            file.write('[package]\nname = "quickstart"\nversion = "0.0.0"\nedition = "2021"\n\n'
                       f'[workspace]\n\n[dependencies]\nholdline-im = {{ path = "{library}" }}\n')
        # The lock says which versions are meant.
        shutil.copy(os.path.join(library, "Cargo.lock"), folder)
        target = os.path.join(folder, "target")
        subprocess.run([CARGO, "build", "--quiet"], cwd=folder, check=True,
                       env={**os.environ, "CARGO_TARGET_DIR": target})
        return [os.path.join(target, "debug", "quickstart")], {}

    def place(self, state):
        found = re.search(r"^last (\d+)$", state.decode(), re.M)
        return int(found[1]) if found else 0

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()
