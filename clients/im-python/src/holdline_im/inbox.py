"""How far this device is in its account's inbox, and what it does to go on (IM 5).

Knows no frames and no timers. Invariant: an entry is handed out once in the life of a client, in
the inbox's order, without a gap but for what this device has sent itself.
"""

from typing import Any, Dict, List, Optional, Tuple

#: Entries that are acknowledged together without waiting for the second.
UNACKNOWLEDGED_MAX = 32
#: The longest that an acknowledgement waits for others, milliseconds (IM 5.5).
ACKNOWLEDGE_MS = 1_000
#: After a pull that the server did not do, milliseconds.
PULL_AGAIN_MS = 1_000
#: Number of unacknowledged entries at which delivery to the application pauses.
HELD_MAX = 256

Placed = Tuple[int, Any]


class Inbox:
    def __init__(self, done: Optional[int]) -> None:
        #: Up to here everything was handed out.
        self.last = done or 0
        #: Up to here the application has everything; None: it never had a session.
        self.done = done
        self._held: Dict[int, None] = {}
        self._acknowledged = self._head = self._own = 0
        self._acknowledge_at: Optional[int] = None
        self._pull_at = 0
        self._is_pulling = self._must_pull = False

    def begin(self, cursor: int, head: int) -> None:
        """A session begins. An inbox that ends before what is known is another one."""
        if self.done is None or self.last > head:
            self.last = self.done = cursor
            self._held.clear()
        self._acknowledged, self._head, self._own, self._pull_at = cursor, head, 0, 0
        self._is_pulling = False
        # Until it has pulled up to the head, the server sends nothing by itself (IM 5.2).
        self._must_pull = cursor != head or self.last != cursor
        self._acknowledge_at = 0 if self.done > cursor else None

    def comes(self, place: int) -> bool:
        """An entry has come by itself; true if it is the next one."""
        between = place - self.last - 1
        is_behind = self._must_pull or self._is_pulling or self._head > self.last or self._is_full
        self._head = max(self._head, place)
        if between < 0 or (self._is_full or between > self._own or (between and is_behind)):
            return False
        self._own -= between
        self.last = place
        return True

    def notify(self, head: int) -> None:
        self._head = max(self._head, head)

    def page(self, entries: List[Placed], upto: int, head: int) -> List[Placed]:
        """What was pulled; the entries that are new."""
        new = [placed for placed in entries if placed[0] > self.last]
        self._is_pulling, self._own = False, 0
        self._head = max(self._head, head)
        self.last = max(self.last, upto)
        if self.last >= self._head:
            self._must_pull = False
        return new

    def pull_failed(self, now: int) -> None:
        self._is_pulling, self._pull_at = False, now + PULL_AGAIN_MS

    def sent_own(self) -> None:
        """This device sent a message, whose place it has not passed."""
        self._own += 1

    # -- the application

    def hold(self, place: int) -> None:
        """The entry is handed out."""
        self._held[place] = None

    def release(self, now: int, place: int) -> bool:
        """The application has it; false if it does not hold it."""
        if place not in self._held:
            return False
        del self._held[place]
        self.advance(now)
        return True

    def advance(self, now: int) -> None:
        """Everything before the first entry that is held is done."""
        done = next(iter(self._held)) - 1 if self._held else self.last
        self.done = max(self.done or 0, done)
        if self.done > self._acknowledged and self._acknowledge_at is None:
            self._acknowledge_at = now + ACKNOWLEDGE_MS

    # -- what it wants to say

    def acknowledgement(self, now: int) -> Optional[int]:
        if self.done is None or self.done <= self._acknowledged or self._acknowledge_at is None:
            return None
        if self.done - self._acknowledged < UNACKNOWLEDGED_MAX and now < self._acknowledge_at:
            return None
        self._acknowledged, self._acknowledge_at = self.done, None
        return self.done

    def pull(self, now: int) -> Optional[int]:
        if not self._wants_pull or now < self._pull_at:
            return None
        self._is_pulling = True
        return self.last

    def due(self) -> Optional[int]:
        times = [self._acknowledge_at, self._pull_at if self._wants_pull else None]
        return min((time for time in times if time is not None), default=None)

    @property
    def _is_full(self) -> bool:
        return len(self._held) >= HELD_MAX

    @property
    def _wants_pull(self) -> bool:
        return not (self._is_pulling or self._is_full) and (
            self._must_pull or self.last < self._head)
