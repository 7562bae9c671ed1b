"""Where a client keeps its state: its place in the inbox, and messages that wait to be sent."""

import contextlib
import os
from typing import Optional


class MemoryStore:
    """Forgets everything with the process: what waits to be sent is lost with it."""

    def __init__(self, text: Optional[str] = None) -> None:
        self.text = text

    def load(self) -> Optional[str]:
        return self.text

    def save(self, text: str) -> None:
        self.text = text


class FileStore:
    """A file that only its owner reads. Each save replaces it whole, so that a crash leaves the
    state before or after. `sync=False` leaves it to the system when the disk has it."""

    def __init__(self, path: str, sync: bool = True) -> None:
        self.path, self.sync = os.fspath(path), sync

    def load(self) -> Optional[str]:
        with contextlib.suppress(FileNotFoundError):
            with open(self.path, encoding="utf-8") as file:
                return file.read()
        return None

    def save(self, text: str) -> None:
        fresh = f"{self.path}.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if self.sync:
                os.fsync(file.fileno())
        os.replace(fresh, self.path)
