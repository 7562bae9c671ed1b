"""The clock of a client: real time, or what a test says."""

import asyncio
import time
from typing import Any, Callable, List, Optional, Tuple


class Clock:
    """Real time. Milliseconds."""

    def __init__(self) -> None:
        # Linux: a clock that goes on while the machine sleeps, so that a laptop that wakes up knows
        # how long it was silent.
        self._source: Optional[int] = getattr(time, "CLOCK_BOOTTIME", None)

    def now(self) -> int:
        """A clock that never goes back."""
        if self._source is None:
            return int(time.monotonic() * 1000)
        return int(time.clock_gettime(self._source) * 1000)

    def wall(self) -> int:
        """Unix time."""
        return int(time.time() * 1000)

    def call_at(self, due: int, what: Callable[[], None]) -> Any:
        """Calls `what` at a time of `now`; the result has `cancel()`."""
        delay = max(0, due - self.now()) / 1000
        return asyncio.get_running_loop().call_later(delay, what)


class ManualClock:
    """Stands still until `advance` moves it: for tests."""

    def __init__(self, wall: int = 1_700_000_000_000) -> None:
        self._now, self._wall = 0, wall
        self._calls: List[Tuple[int, "_Call"]] = []

    def now(self) -> int:
        return self._now

    def wall(self) -> int:
        return self._wall + self._now

    def call_at(self, due: int, what: Callable[[], None]) -> "_Call":
        call = _Call(what)
        self._calls.append((due, call))
        return call

    def advance(self, now: int) -> None:
        """Sets the time and runs what is due, in order."""
        self._now = now
        while True:
            self._calls = [(due, call) for due, call in self._calls if call.what]
            ready = [each for each in self._calls if each[0] <= now]
            if not ready:
                return
            first = min(ready, key=lambda each: each[0])
            self._calls.remove(first)
            what = first[1].what
            if what:
                what()

    def next(self) -> Optional[int]:
        """When something is due."""
        return min((due for due, call in self._calls if call.what), default=None)


class _Call:
    def __init__(self, what: Callable[[], None]) -> None:
        self.what: Optional[Callable[[], None]] = what

    def cancel(self) -> None:
        self.what = None
