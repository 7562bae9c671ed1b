"""How long a connection may be silent: what a network allows is found and remembered.

NATs and proxies forget silent connections sooner than servers do. The interval grows while PINGs
are answered, and is searched for between the longest that worked and the shortest that failed.
All numbers are seconds.
"""

from typing import Dict, List, Optional

#: Answered PINGs at an interval before a longer one is tried.
GROW_AFTER = 2
#: Answered PINGs after which an upper bound is forgotten, because networks change.
FORGET_AFTER = 50
#: Networks that are remembered.
NETWORKS_MAX = 16


class Heartbeat:
    """The interval between PINGs, for each network that the application names."""

    def __init__(self, shortest: int = 30, first: int = 120, longest: int = 1800) -> None:
        if not 1 <= shortest <= first <= longest <= 65535:
            raise ValueError("a heartbeat has 1 <= shortest <= first <= longest <= 65535")
        self.shortest, self.first, self.longest = shortest, first, longest
        # By network: interval, longest that worked (0: none), shortest that failed (0: none).
        self._learned: Dict[str, List[int]] = {}
        self._network = ""
        self._answered = 0
        self._since_bound = 0

    def use(self, network: str) -> None:
        """The device is in this network now."""
        if network != self._network:
            self._network, self._answered, self._since_bound = network, 0, 0

    def _now(self) -> List[int]:
        # The network used last is the last one of the dictionary.
        found = self._learned.pop(self._network, None) or [self.first, 0, 0]
        self._learned[self._network] = found
        while len(self._learned) > NETWORKS_MAX:
            del self._learned[next(iter(self._learned))]
        return found

    def interval(self, agreed: int) -> int:
        """The interval; the agreed heartbeat is never exceeded."""
        return max(1, min(self._now()[0], agreed))

    def survived(self, silence: float, agreed: int) -> bool:
        """A PING after so much silence was answered. True if the interval has changed."""
        it = self._now()
        interval, worked, failed = it
        if silence < min(interval, agreed):
            return False
        self._answered += 1
        it[1] = max(worked, min(interval, agreed))
        if failed and self._is_settled(it):
            self._since_bound += 1
            if self._since_bound >= FORGET_AFTER:
                it[2], self._since_bound, self._answered = 0, 0, 0
        elif self._answered >= GROW_AFTER:
            limit = min(agreed, self.longest)
            longer = (it[1] + failed) // 2 if failed else interval * 3 // 2
            it[0], self._answered = max(interval, min(longer, limit)), 0
        return it != [interval, worked, failed]

    def failed(self, silence: float, agreed: int) -> bool:
        """A connection died of so much silence. True if the interval has changed."""
        it = self._now()
        interval = min(it[0], agreed)
        if silence < interval:
            return False
        if it[1] >= interval:
            it[1] = 0  # it worked once: the network has changed
        it[2] = interval
        it[0] = max(self.shortest, it[1] or interval // 2)
        self._answered = self._since_bound = 0
        return True

    @staticmethod
    def _is_settled(it: List[int]) -> bool:
        return it[2] - it[1] <= max(10, it[1] // 8)

    def save(self) -> Dict[str, List[int]]:
        """The learned intervals, for the state."""
        return {name: list(it) for name, it in self._learned.items()}

    def load(self, learned: Optional[Dict[str, List[int]]]) -> None:
        """Goes on with what was learned earlier, within today's limits."""
        for name, (interval, worked, failed) in (learned or {}).items():
            interval = min(max(interval, self.shortest), self.longest)
            self._learned[name] = [interval, worked, failed]
