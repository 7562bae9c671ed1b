"""Push messages from Holdline, by MIOP 7: see README.md."""

from .client import Client, Ended, Push
from .clock import Clock, ManualClock
from .machine import Credentials, State
from .reports import QueueFull
from .store import FileStore, MemoryStore

__version__ = "0.1.0"
__all__ = ["Client", "Clock", "Credentials", "Ended", "FileStore", "ManualClock", "MemoryStore",
           "Push", "QueueFull", "State"]
