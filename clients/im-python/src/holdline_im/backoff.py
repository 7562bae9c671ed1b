"""When to connect again: exponential back-off with full jitter, after the server's hint."""

from typing import Callable

#: The span of the first wait, milliseconds; it doubles with each failure.
FIRST_MS = 1_000
LONGEST_MS = 60_000
#: Length of a session, milliseconds, after which the next wait is short again.
GOOD_SESSION_MS = 10_000
#: A server cannot send a client away for longer than this.
HINT_MS_MAX = 3_600_000


class Backoff:
    """The waits of one client, milliseconds."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random, self._span_ms = random, FIRST_MS

    def lasted(self, session_ms: int) -> None:
        """A session has ended that lasted so long."""
        if session_ms >= GOOD_SESSION_MS:
            self._span_ms = FIRST_MS

    def next(self, hint_ms: int = 0) -> int:
        """How long to wait now. The jitter is added to the hint, so that the clients that were
        sent away together do not come back together."""
        wait = int(self._random() * self._span_ms)
        self._span_ms = min(self._span_ms * 2, LONGEST_MS)
        return hint_ms + wait
