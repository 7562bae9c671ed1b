"""Reports that wait for the server: in order, each under one number until it was taken."""

from typing import Any, Callable, Dict, List, Optional

COUNT_MAX = 256
BYTES_MAX = 1 << 20
IN_FLIGHT_MAX = 16
PAUSE_FIRST_MS, PAUSE_LONGEST_MS = 5_000, 300_000


class QueueFull(Exception):
    """Too many Reports wait."""


class Report:
    """One that waits."""

    __slots__ = ("seq", "client_id", "payload", "sent")

    def __init__(self, seq: int, client_id: str, payload: bytes) -> None:
        self.seq, self.client_id, self.payload, self.sent = seq, client_id, payload, False


class Reports:
    """The queue of one device."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._queue: List[Report] = []
        self._next_seq = 1
        self._bytes = 0
        self._pause_ms = PAUSE_FIRST_MS
        #: No Report is sent before this time; `None`: no pause.
        self.paused_until: Optional[int] = None

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, client_id: str, payload: bytes) -> bool:
        """Queues one; false if its client id is queued already."""
        if any(report.client_id == client_id for report in self._queue):
            return False
        if len(self._queue) >= COUNT_MAX or self._bytes + len(payload) > BYTES_MAX:
            raise QueueFull("queue_full")
        self._queue.append(Report(self._next_seq, client_id, payload))
        self._next_seq = self._next_seq % 0xFFFFFFFF + 1
        self._bytes += len(payload)
        return True

    def bound(self) -> None:
        """A new session: what was in flight is sent again."""
        for report in self._queue:
            report.sent = False

    def to_send(self, now: int) -> List[Report]:
        """Those that may be sent now; they count as sent."""
        if self.paused_until is not None:
            if now < self.paused_until:
                return []
            self.paused_until = None
        room = IN_FLIGHT_MAX - sum(report.sent for report in self._queue)
        found = [report for report in self._queue if not report.sent][:max(0, room)]
        for report in found:
            report.sent = True
        return found

    def taken(self, seq: int) -> List[Report]:
        """The server has all that are in flight up to this number."""
        gone = [report for report in self._queue
                if report.sent and (seq - report.seq) & 0xFFFFFFFF < 1 << 31]
        if gone:
            self._queue = [report for report in self._queue if report not in gone]
            self._bytes -= sum(len(report.payload) for report in gone)
            self._pause_ms = PAUSE_FIRST_MS
        return gone

    def refused(self, now: int, seq: int) -> None:
        """The server did not take this one: all wait for a while."""
        for report in self._queue:
            if report.seq == seq and report.sent:
                report.sent = False
                half = self._pause_ms / 2
                self.paused_until = now + int(half + self._random() * half)
                self._pause_ms = min(self._pause_ms * 2, PAUSE_LONGEST_MS)

    def save(self) -> Dict[str, Any]:
        """The queue, for the state."""
        return {"next": self._next_seq, "queue": [[report.seq, report.client_id,
                                                   report.payload.hex()]
                                                  for report in self._queue]}

    def load(self, saved: Optional[Dict[str, Any]]) -> None:
        """Goes on with a stored queue."""
        if saved:
            self._next_seq = saved["next"]
            self._queue = [Report(seq, name, bytes.fromhex(payload))
                           for seq, name, payload in saved["queue"]]
            self._bytes = sum(len(report.payload) for report in self._queue)
