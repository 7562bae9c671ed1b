"""Messages that the server has not stored yet, in the order in which they were sent.

One message of a conversation is on its way at a time, so that a conversation keeps its order. Each
keeps its client id until the server has answered, so that retries never duplicate it (IM 4.2).
"""

import base64
from typing import Any, Dict, List, Optional

from . import im_pb2 as pb
from .words import ImError

MESSAGES_MAX = 256
BYTES_MAX = 1 << 20
#: After a message that the server could not take now, milliseconds; it doubles up to the second.
AGAIN_MS = 1_000
AGAIN_MS_MAX = 30_000


class Queued:
    """A message that waits."""

    def __init__(self, client_id: str, to: str, content: Any) -> None:
        self.client_id, self.to, self.content = client_id, to, content
        self.size = len(content.text.encode()) + len(content.extra)


class Outbox:
    def __init__(self, saved: List[List[str]]) -> None:
        self.queue: List[Queued] = []
        #: Rises with each change of the queue.
        self.version = 0
        for client_id, to, content in saved:
            self.queue.append(Queued(client_id, to, pb.Content.FromString(
                base64.b64decode(content))))
        self._under_way: Dict[int, Queued] = {}
        self._again_at: Optional[int] = None
        self._again_ms = AGAIN_MS

    def saved(self) -> List[List[str]]:
        return [[it.client_id, it.to, base64.b64encode(it.content.SerializeToString()).decode()]
                for it in self.queue]

    def add(self, queued: Queued) -> bool:
        """False if a message with this client id waits already."""
        if any(it.client_id == queued.client_id for it in self.queue):
            return False
        size = sum(it.size for it in self.queue)
        if len(self.queue) >= MESSAGES_MAX or size + queued.size > BYTES_MAX:
            raise ImError("queue_full")
        self.queue.append(queued)
        self.version += 1
        return True

    def next(self, now: int, domain: str, window: int) -> Optional[Queued]:
        """The next that is to be sent: the first of a conversation that has none on its way."""
        if self._again_at is not None and now < self._again_at:
            return None
        self._again_at = None
        if len(self._under_way) >= window:
            return None
        busy = {_whole(it.to, domain) for it in self._under_way.values()}
        return next((it for it in self.queue if _whole(it.to, domain) not in busy), None)

    def sent(self, number: int, queued: Queued) -> None:
        self._under_way[number] = queued

    def answered(self, number: int) -> Optional[Queued]:
        """The server has answered this request for good."""
        queued = self._under_way.pop(number, None)
        self._again_ms = AGAIN_MS
        return self.take(queued.client_id) if queued else None

    def refused(self, now: int, number: int, hint_ms: int) -> None:
        """The server could not take it now."""
        if self._under_way.pop(number, None):
            self._again_at = now + max(self._again_ms, hint_ms)
            self._again_ms = min(self._again_ms * 2, AGAIN_MS_MAX)

    def take(self, client_id: str) -> Optional[Queued]:
        """It waits no more."""
        found = next((it for it in self.queue if it.client_id == client_id), None)
        if found:
            self.queue.remove(found)
            self.version += 1
        return found

    def too_large(self, text_max: int, extra_max: int) -> List[Queued]:
        """Those that the server does not take."""
        return [it for it in self.queue
                if len(it.content.text.encode()) > text_max or len(it.content.extra) > extra_max]

    def lost(self) -> None:
        """The connection has ended: nothing is on its way."""
        self._under_way.clear()
        self._again_at = None

    def due(self) -> Optional[int]:
        return self._again_at if self.queue else None


def _whole(to: str, domain: str) -> str:
    return to if "@" in to else f"{to}@{domain}"
