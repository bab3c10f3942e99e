"""The transaction coordinator (KIP-98, KIP-360): epochs, members of transactions, markers that follow the response."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from app.kafka.transactions.next_epoch import NOBODY
from tests.simulation.log import Log
from tests.simulation.loop import EPOCH_MS, Loop

_NONE, _INVALID_STATE, _OLD_EPOCH, _UNKNOWN_ID, _CONCURRENT = 0, 48, 47, 49, 51

#: How often the coordinator looks again for a leader: as long as the controller has not noticed that it is gone.
_LATER = 0.5

_NAMES = {"empty": "Empty", "ongoing": "Ongoing", "committed": "CompleteCommit", "aborted": "CompleteAbort"}

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class Transaction:
    """The state of a transactional id: empty, ongoing, preparing, committed or aborted."""

    id: str
    producer: int
    epoch: int = -1
    #: The epoch before, if its producer asked for the new one or was fenced: a repeated request gets the same answer.
    last_epoch: int = -1
    timeout_s: float = 15.0
    state: str = "empty"
    committing: bool = False
    partitions: set[TopicPartition] = field(default_factory=set)
    waiting: set[TopicPartition] = field(default_factory=set)
    number: int = 0

    @property
    def state_name(self) -> str:
        """Name the state as Kafka does."""
        return _NAMES.get(self.state) or ("PrepareCommit" if self.committing else "PrepareAbort")


class Coordinator:
    """Keeps all transactional ids."""

    def __init__(
        self,
        loop: Loop,
        rnd: random.Random,
        log: Callable[[TopicPartition], Log],
        refuses: Callable[[TopicPartition], bool],
        leaderless: Callable[[TopicPartition], bool],
    ) -> None:
        """Write markers to `log`, unless the partition `refuses` its marker; markers of `leaderless` partitions may be
        lost."""
        self._loop, self._rnd, self._log, self._refuses, self._leaderless = loop, rnd, log, refuses, leaderless
        self.transactions: dict[str, Transaction] = {}
        self._by_producer: dict[int, Transaction] = {}
        self._ids = 1_000
        #: The longest time until a marker is written.
        self.slowest_s = 0.05

    def new_producer(self) -> int:
        self._ids += 1
        return self._ids

    def init(self, id_: str, timeout_ms: int, asking: tuple[int, int]) -> tuple[int, int, int]:
        """Return error code, producer id and epoch to one whose id and epoch are `asking`.

        Like a broker, it aborts an ongoing transaction before it checks the epoch.
        """
        found = self.transactions.get(id_)
        if found is None:
            found = self.transactions[id_] = Transaction(id_, self.new_producer())
            self._by_producer[found.producer] = found
        if found.state == "ongoing":
            self._fence(found)
        if found.state == "preparing":
            return _CONCURRENT, -1, -1
        if asking == NOBODY or asking[1] == found.epoch:
            found.last_epoch = -1 if asking == NOBODY else found.epoch
            found.epoch += 1
        elif asking[1] != found.last_epoch:
            return _OLD_EPOCH, -1, -1
        found.state, found.timeout_s = "empty", timeout_ms / 1000
        found.partitions.clear()
        return _NONE, found.producer, found.epoch

    def _refusal(self, found: Transaction | None, producer: int, epoch: int) -> int:
        if found is None or found.producer != producer:
            return _UNKNOWN_ID
        return _OLD_EPOCH if found.epoch != epoch else _NONE

    def add(self, id_: str, producer: int, epoch: int, places: list[TopicPartition]) -> int:
        found = self.transactions.get(id_)
        code = self._refusal(found, producer, epoch)
        if code or found is None:
            return code
        if found.state == "preparing":
            return _CONCURRENT
        if found.state != "ongoing":
            found.state = "ongoing"
            found.number += 1
            found.partitions.clear()
            self._loop.call_later(found.timeout_s, self._expire, found, found.number)
        found.partitions.update(places)
        return _NONE

    def end(self, id_: str, producer: int, epoch: int, *, committing: bool) -> int:
        found = self.transactions.get(id_)
        code = self._refusal(found, producer, epoch)
        if code or found is None:
            return code
        if found.state == "ongoing":
            self._prepare(found, committing=committing)
            return _NONE
        if found.committing is not committing or found.state == "empty":
            return _INVALID_STATE
        return _CONCURRENT if found.state == "preparing" else _NONE

    def verify(self, producer: int, epoch: int, place: TopicPartition) -> int:
        """Return whether a partition is in an ongoing transaction of a producer (KIP-890)."""
        found = self._by_producer.get(producer)
        if found is None:
            return _UNKNOWN_ID
        if found.epoch != epoch:
            return _OLD_EPOCH
        return _NONE if found.state == "ongoing" and place in found.partitions else _INVALID_STATE

    def _expire(self, found: Transaction, number: int) -> None:
        if found.number == number and found.state == "ongoing":
            self._fence(found)

    def _fence(self, found: Transaction) -> None:
        """Abort the ongoing transaction, and fence its producer."""
        found.epoch, found.last_epoch = found.epoch + 1, found.epoch
        self._prepare(found, committing=False)

    def _prepare(self, found: Transaction, *, committing: bool) -> None:
        found.state, found.committing, found.waiting = "preparing", committing, set(found.partitions)
        for place in sorted(found.partitions):
            late_s = self._rnd.uniform(0.001, self.slowest_s)
            self._loop.call_later(late_s, self._mark, found, place, found.epoch)

    def _mark(self, found: Transaction, place: TopicPartition, epoch: int) -> None:
        if self._refuses(place):
            self._loop.call_later(self.slowest_s, self._mark, found, place, epoch)
            return
        if not self._leaderless(place):
            now_ms = EPOCH_MS + round(self._loop.time() * 1000)
            self._log(place).mark(found.producer, epoch, now_ms, committed=found.committing)
        elif self._rnd.random() < _LATER:
            self._loop.call_later(self.slowest_s, self._mark, found, place, epoch)
            return
        found.waiting.discard(place)
        if not found.waiting:
            found.state = "committed" if found.committing else "aborted"
