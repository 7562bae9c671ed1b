"""Instant messaging over Holdline's IM protocol: see README.md. `pb` is the protocol's schema."""

from . import im_pb2 as pb
from .client import Client, Event, Message
from .clock import Clock, ManualClock
from .machine import Credentials, Failed, Sent, State
from .store import FileStore, MemoryStore
from .words import Ended, ImError

__version__ = "0.1.0"
__all__ = ["Client", "Clock", "Credentials", "Ended", "Event", "Failed", "FileStore", "ImError",
           "ManualClock", "MemoryStore", "Message", "Sent", "State", "pb"]
