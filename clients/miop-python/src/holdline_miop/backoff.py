"""When to connect again: exponential back-off with full jitter, never before the server's hint."""

from typing import Callable

#: A session of at least so long was a good one: the next wait is short again. Milliseconds.
GOOD_SESSION_MS = 10_000
#: A server cannot send a device away for longer than this.
HINT_MS_MAX = 3_600_000


class Backoff:
    """The waits of one client, milliseconds."""

    def __init__(self, random: Callable[[], float], first_ms: int = 1_000,
                 longest_ms: int = 60_000) -> None:
        self._random, self._first_ms, self._longest_ms = random, first_ms, longest_ms
        self._span_ms = first_ms

    def lasted(self, session_ms: int) -> None:
        """A session has ended that lasted so long."""
        if session_ms >= GOOD_SESSION_MS:
            self._span_ms = self._first_ms

    def next(self, hint_ms: int = 0) -> int:
        """How long to wait now."""
        wait = int(self._random() * self._span_ms)
        self._span_ms = min(self._span_ms * 2, self._longest_ms)
        return max(wait, min(hint_ms, HINT_MS_MAX))
