"""How many rows a worker has on their way at once: what keeps it busy and not more, for each may come twice.

What is sent and not yet removed in the changelog when a process dies is sent again by the next one. In between, a row
waits for three answers of Kafka, one after the other: to its delivery, to its event, to its removal. As many rows as go
in that time keep the worker busy, as on a TCP connection, if they do not come in lumps; they do.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from app.partition.in_flight import InFlight
from app.route import Route

#: A worker may have so many: plenty, where Kafka answers within milliseconds. A partition that is behind has a share of
#: them, no less than what is worth a step and its two requests: if there are many such partitions, they take turns.
#: Two at a time are enough to have Kafka answer one while the other works: four, with half as many rows in each step,
#: took 15 % more CPU for a message and sent a tenth less (medians of eight bursts of 200,000 each, in turns).
LEAST, LEAST_OF_A_PARTITION = 1_000, 500
#: The answers that a row waits for, and how many times what goes meanwhile is on its way: by so much it comes in lumps.
_ANSWERS, _TIMES = 3, 3
#: The rate is taken over so long, and the shortest answer remembered, in seconds.
_RATE_S, _ANSWER_S = 0.05, 5.0
#: A partition that has not got any further for so long does not count: nobody waits for it but itself.
_STUCK_S = 0.25

#: Whether what is on a route takes no room.
Aside = Callable[[Route], bool]


class Window:
    """The rows that a worker may have on their way; partitions get their shares cycle by cycle."""

    def __init__(self, aside: Aside, *, unlimited: bool = False) -> None:
        """Begin with the least; routes that are `aside` do not count.

        If it is `unlimited`, partitions go by their own bounds: exactly once, nothing comes twice.
        """
        self._aside, self._unlimited = aside, unlimited
        #: How many may be on their way, how many of them a partition, and how many more in this cycle.
        self.rows = self._share = self._left = LEAST
        #: How many were handed out since the rate was last taken.
        self._since = self._handed_out = 0.0
        #: The shortest answer of each cluster, of this stretch of time and the one before.
        self._answers = self._answers_before = dict[str | None, float]()
        self._answers_since = 0.0
        #: When each partition that has rows on their way got the last of them.
        self._got = dict[InFlight, float]()
        self._now = 0.0
        #: Whether there was no room for some partition in the last cycle.
        self.full = False

    def answered(self, cluster: str | None, seconds: float) -> None:
        """Hear how long a cluster took to acknowledge a delivery."""
        self._answers[cluster] = min(seconds, self._answers.get(cluster, seconds))

    def begin(self, parts: Collection[InFlight], now: float) -> None:
        """Begin a cycle of these partitions, at a time of the loop."""
        self._now = now
        self._measure(now)
        self._got = {part: at for part, at in self._got.items() if part.claims}
        counted = [part for part in parts if part.claims and now - self._got.get(part, now) < _STUCK_S]
        self._left = self.rows - sum(part.sending(self._aside) for part in counted)
        behind = sum(part.full for part in parts)
        self.full, self._share = behind > 0, max(LEAST_OF_A_PARTITION, self.rows // max(1, behind or len(parts)))

    @property
    def scarce(self) -> bool:
        """Whether not all partitions may get what they want in this cycle: the oldest come first then."""
        return not self._unlimited and self._left < self.rows

    def room(self, part: InFlight, most: int) -> int:
        """Return how many more rows a partition gets, if it may have `most` on their way; a few would cost as much."""
        sending = part.sending(self._aside)
        if self._unlimited:
            return most - sending
        share = min(most, self._share)
        room = min(share - sending, self._left)
        return room if self._left >= share or 2 * room >= share else 0

    @contextmanager
    def handing_out(self, part: InFlight) -> Iterator[None]:
        """Count what a partition gets while the block runs."""
        before = len(part.claims)
        yield
        rows = len(part.claims) - before
        if rows > 0:
            self._left -= rows
            self._handed_out += rows
            self._got[part] = self._now

    def _measure(self, now: float) -> None:
        """Measure the rate, and change how many may be on their way."""
        if now - self._answers_since >= _ANSWER_S:
            self._answers_before, self._answers, self._answers_since = self._answers, {}, now
        took = now - self._since
        if took < _RATE_S:
            return
        shortest = {**self._answers_before, **self._answers}
        for cluster in self._answers_before.keys() & self._answers.keys():
            shortest[cluster] = min(self._answers_before[cluster], self._answers[cluster])
        wanted = _TIMES * _ANSWERS * max(shortest.values(), default=0.0) * self._handed_out / took
        self.rows = max(LEAST, min(2 * self.rows, int(wanted)))
        self._since, self._handed_out = now, 0
