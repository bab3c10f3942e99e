"""Detects inputs that a worker does not read, and writes that brokers do not confirm."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from app.engine.partition.partition import Partition

#: A step takes milliseconds, and electing another leader a few seconds, so a longer wait is a failure.
TOO_LONG_S: Final = 10.0

NO_ROOM: Final = "the worker accepts no requests, because less disk space is free than it needs"


class InputProgress(Protocol):
    """The progress of reading inputs."""

    @property
    def held_back(self) -> bool:
        """Whether no requests are read because the disk is nearly full."""

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which records are in the table; None if not known."""
        ...

    def end(self, topic: str, partition: int) -> int | None:
        """Return the end of a topic's partition when it was last fetched; None if it was not."""
        ...

    def heard(self, topic: str, partition: int) -> float | None:
        """Return a number that changes with each answer of a broker, None while the partition is not read."""
        ...

    def ahead(self, topic: str, partition: int) -> bool:
        """Return whether fetched records are not in the table yet."""
        ...


@dataclass(slots=True)
class _InputState:
    """Times of an input partition's last progress and last answer; `unread_s` is None if all records are read.

    Otherwise it is the time when the worker first saw the record before `end`, which is still unread.
    """

    got_on_s: float
    heard_s: float
    position: int = -1
    heard: float | None = None
    end: int = 0
    unread_s: float | None = None


class Standstill:
    """Watches the reads and writes of partitions every second."""

    def __init__(
        self,
        topics: tuple[str, ...],
        intake: InputProgress,
        partitions: Mapping[int, Partition],
        now_s: Callable[[], float],
    ) -> None:
        """Watch the inputs `topics`, which `intake` reads, and `partitions`; `now_s` is the loop's clock."""
        self._topics, self._intake, self._partitions, self._now_s = topics, intake, partitions, now_s
        self._inputs: dict[tuple[int, str], _InputState] = {}
        #: When a progress report was sent that no broker has confirmed yet.
        self.reporting_s: float | None = None

    @property
    def held_back(self) -> bool:
        """Whether no requests are accepted because the disk is nearly full."""
        return self._intake.held_back

    def look(self) -> None:
        """Record the progress of all inputs."""
        now_s = self._now_s()
        working = {number: one for number, one in self._partitions.items() if one.working}
        self._inputs = {key: one for key, one in self._inputs.items() if key[0] in working}
        for number, partition in working.items():
            for topic in self._topics:
                one = self._inputs.setdefault((number, topic), _InputState(now_s, now_s))
                self._look_at(one, partition, topic, now_s)

    def _look_at(self, one: _InputState, partition: Partition, topic: str, now_s: float) -> None:
        end, position = self._intake.end(topic, partition.number), self._intake.position(topic, partition.number)
        if position is None:
            there = partition.store.positions.get(topic)
            position = 0 if there is None else there.offset
        if end is None or position >= end:
            one.unread_s = None
        elif one.unread_s is None or position >= one.end:
            one.end, one.unread_s = end, now_s
        if one.unread_s is None or position != one.position:
            one.position, one.got_on_s = position, now_s
        heard = self._intake.heard(topic, partition.number)
        if heard is None or heard != one.heard or self._intake.ahead(topic, partition.number):
            one.heard, one.heard_s = heard, now_s

    def unread_s(self, number: int) -> float:
        """Return for how many seconds a partition's oldest unread request has waited."""
        now_s = self._now_s()
        ages = (one.unread_s for (of, _), one in self._inputs.items() if of == number)
        return max((now_s - since_s for since_s in ages if since_s is not None), default=0.0)

    def unconfirmed_s(self) -> float:
        """Return for how many seconds the oldest unconfirmed write has waited; 0 if there is none."""
        ages = [one.writer.committing_s for one in self._partitions.values()]
        return max((self._now_s() - since_s for since_s in (*ages, self.reporting_s) if since_s is not None), default=0)

    def reason(self) -> str | None:
        """Return why this worker cannot work at the moment; None if it can."""
        if self.held_back:
            return NO_ROOM
        return next(self._stuck(), None)

    def _stuck(self) -> Iterator[str]:
        unconfirmed_s, now_s = self.unconfirmed_s(), self._now_s()
        if unconfirmed_s > TOO_LONG_S:
            yield f"the brokers have not confirmed a write for {unconfirmed_s:.0f} s"
        for (number, topic), one in sorted(self._inputs.items()):
            if now_s - one.heard_s > TOO_LONG_S:
                yield f"no broker has answered fetches of partition {number} of {topic} for {now_s - one.heard_s:.0f} s"
            if now_s - one.got_on_s > TOO_LONG_S:
                yield f"requests in partition {number} of {topic} have been unread for {now_s - one.got_on_s:.0f} s"
