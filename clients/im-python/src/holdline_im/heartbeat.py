"""How long a connection may be silent: what a network allows is found and remembered.

NATs and proxies forget silent connections sooner than servers do. The interval grows by half while
Pings are answered, and is searched for between the longest that worked and the shortest that failed.
All numbers are seconds.
"""

from typing import Dict, List, Optional

#: Answers at one interval before a longer one is tried.
ANSWERS_TO_GROW = 2
#: Number of answers after which a bound is forgotten, because networks change.
ANSWERS_TO_FORGET = 50
#: Networks that are remembered.
NETWORKS_MAX = 16
_SETTLED_S = 10


class Heartbeat:
    def __init__(self, shortest: int = 30, first: int = 120, longest: int = 1800) -> None:
        if not 1 <= shortest <= first <= longest:
            raise ValueError("a heartbeat has 1 <= shortest <= first <= longest")
        self.shortest, self.first, self.longest = shortest, first, longest
        # By network: interval, longest that worked, shortest that failed; 0: none. The one used
        # last is the last one.
        self._learned: Dict[str, List[int]] = {"": [first, 0, 0]}
        self._network = ""
        self._answers = self._answers_bounded = 0
        #: An interval that seems to have failed: it counts if the network is there.
        self.suspect = 0
        #: Rises with each change of what is stored.
        self.version = 0

    def use(self, network: str) -> None:
        """The device is in this network now."""
        self._network, self._answers, self._answers_bounded, self.suspect = network, 0, 0, 0
        self._learned[network] = self._learned.pop(network, [self.first, 0, 0])
        while len(self._learned) > NETWORKS_MAX:
            del self._learned[next(iter(self._learned))]
        self.version += 1

    def interval(self, agreed: int) -> int:
        """The silence after which a Ping is due; the server's limit is never exceeded."""
        now = self._learned[self._network][0]
        return max(1, min(max(now, self.shortest), self.longest, agreed))

    def lived(self, silence: int) -> None:
        """A Ping after so much silence was answered."""
        it = self._learned[self._network]
        self._answers += 1
        before = list(it)
        it[1] = max(it[1], silence)
        if it[2]:
            self._answers_bounded += 1
            if it[1] >= it[2] or self._answers_bounded >= ANSWERS_TO_FORGET:
                it[2], self._answers_bounded = 0, 0
        if self._answers >= ANSWERS_TO_GROW:
            self._answers = 0
            if not it[2]:
                it[0] = min(silence * 3 // 2, self.longest)
            elif it[2] - it[1] > max(_SETTLED_S, it[1] // 8):
                it[0] = (it[1] + it[2]) // 2
        self.version += it != before

    def bound(self, at_first: bool) -> None:
        """The next session has begun. If it did so at the first attempt, the network was there, and
        the silence was what the connection before did not survive."""
        failed, self.suspect = self.suspect, 0
        if not failed or not at_first:
            return
        it = self._learned[self._network]
        it[1] = it[1] if it[1] < failed else 0
        it[0], it[2] = it[1] or max(failed // 2, self.shortest), failed
        self._answers = self._answers_bounded = 0
        self.version += 1

    def save(self) -> Dict[str, List[int]]:
        return {name: list(it) for name, it in self._learned.items()}

    def load(self, learned: Optional[Dict[str, List[int]]]) -> None:
        """Goes on with what was learned earlier."""
        for name, (now, good, bad) in (learned or {}).items():
            self._learned[name] = [int(now), int(good), int(bad)]
