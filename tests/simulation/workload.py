"""Requests and commands of one run, by seed: what users send, and when."""

import random
from dataclasses import dataclass

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from app.settings.settings import Settings
from punctual.contract.home import home_partition
from punctual.contract.jitter import spread
from tests.simulation.faults import Plan
from tests.simulation.loop import EPOCH_MS
from tests.simulation.web import Web

Headers = list[tuple[str, bytes | None]]

#: Ways to write a request that cannot be accepted, and the reason that it gets.
_POISON = {
    "missing-due": [("delay-to", b"orders")],
    "missing-destination": [("delay-after", b"100")],
    "malformed": [("delay-to", b"orders"), ("delay-after", b"100"), ("delay-colour", b"red")],
    "ambiguous-due": [("delay-to", b"orders"), ("delay-after", b"100"), ("delay-at", b"100")],
    "unknown-topic": [("delay-to", b"nowhere"), ("delay-after", b"100")],
    "not-allowed": [("delay-to", b"delay-events"), ("delay-after", b"100")],
    "bad-id": [("delay-to", b"orders"), ("delay-after", b"100"), ("delay-id", b"")],
}
_FAR_MS = 86_400_000
#: Values above this are too large for the destinations.
LARGEST = 900


@dataclass(slots=True)
class Ask:
    """A record that a user sends. `due_ms`, jitter included, is None for commands without one."""

    at_s: float
    partition: int
    op: str
    id: str | None
    due_ms: int | None
    headers: Headers
    key: bytes | None
    value: bytes | None
    poison: str | None = None
    #: The input that it is sent to; empty is the requests topic.
    input: str = ""
    #: Set when it is sent.
    offset: int = -1
    stamp_ms: int = -1
    topic: str = ""

    @property
    def source(self) -> str:
        """The name of the record."""
        return f"{self.topic}-{self.partition}-{self.offset}"

    @property
    def over_http(self) -> bool:
        """Whether its destination is a URL."""
        return "://" in (self.said("delay-to") or "")

    @property
    def recurs(self) -> bool:
        """Whether it requests a series."""
        return self.said("delay-every") is not None

    @property
    def in_zone(self) -> bool:
        """Whether it requests a series in a time zone."""
        return self.said("delay-zone") is not None

    @property
    def name(self) -> str:
        """The id, given or made from the record's place."""
        return self.id if self.id is not None else self.source

    def said(self, header: str) -> str | None:
        """Return a header's value."""
        found = next((value for name, value in self.headers if name == header), None)
        return None if found is None else found.decode()

    def batch(self, stamp_ms: int) -> bytes:
        """Return the record batch."""
        builder = DefaultRecordBatchBuilder(
            2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 20
        )
        builder.append(0, stamp_ms, self.key, self.value, self.headers)
        return bytes(builder.build())


class Author:
    """Makes up a workload."""

    def __init__(
        self, rnd: random.Random, settings: Settings, plan: Plan, destinations: dict[str, int], web: Web
    ) -> None:
        """Schedule within the plan's span, some messages to the `web`."""
        self._web = web
        self._rnd, self._settings, self._plan, self._span_s = rnd, settings, plan, plan.span_s
        self._destinations, self._across = destinations, rnd.choice((0.1, 0.25, 0.6, 1.0))
        self._asks: list[Ask] = []

    def write(self) -> list[Ask]:
        """Make up the requests."""
        rnd = self._rnd
        for number in range(rnd.randint(10, 30)):
            if rnd.random() < 0.06:
                self._poison()
            else:
                self._message(number)
        self._asks.sort(key=lambda ask: ask.at_s)
        return self._asks

    def _when(self, at_s: float, *, far: bool) -> int:
        """Return a due time: many messages share one, some are due already."""
        if far:
            return EPOCH_MS + _FAR_MS
        ahead = self._rnd.choice((-0.3, 0.0, 0.1, 0.4, 0.8, 1.2, 2.0, 3.0))
        return EPOCH_MS + round((at_s + ahead) * 5) * 200

    def _poison(self) -> None:
        rnd = self._rnd
        reason = rnd.choice(sorted(_POISON))
        partition = rnd.randrange(self._settings.topics.partitions)
        headers: Headers = [("users", b"own"), *_POISON[reason]]
        at_s = rnd.uniform(0, self._span_s)
        self._asks.append(Ask(at_s, partition, "schedule", None, None, headers, b"k", b"poison", reason))

    def _message(self, number: int) -> None:
        rnd = self._rnd
        id_ = f"m{number}" if rnd.random() < 0.7 else None
        at_s = rnd.uniform(0, self._span_s)
        due = self._when(at_s, far=rnd.random() < 0.08)
        request = self._schedule(number, id_, at_s, due)
        self._asks.append(request)
        if id_ is None:
            return
        if rnd.random() < self._plan.pushed:
            self._push_back(number, request)
        most = self._plan.commands
        for turn in range(rnd.choice((0, 0, 0, min(1, most), min(1, most), most))):
            self._command(number, turn, request)

    def _push_back(self, number: int, request: Ask) -> None:
        """Replace or move a message again and again, each time before it is due; most requests have bounds."""
        rnd, at_s, id_ = self._rnd, request.at_s, request.id
        assert id_ is not None
        for turn in range(rnd.randint(2, 5)):
            at_s += rnd.uniform(0.0, 0.4)
            due = EPOCH_MS + round((at_s + rnd.choice((0.3, 0.5, 0.9))) * 1000)
            if rnd.random() < 0.2:
                headers: Headers = [("delay-op", b"reschedule"), ("delay-id", id_.encode()), ("delay-at", b"%d" % due)]
                self._asks.append(Ask(at_s, self._place(id_), "reschedule", id_, due, headers, None, None))
                continue
            ask = self._schedule(number * 1_000 + turn, id_, at_s, due)
            if rnd.random() < 0.7:
                ask.headers.append(("delay-no-later", b"%d" % rnd.choice((300, 700, 1_500))))
            self._asks.append(ask)

    def _place(self, id_: str | None) -> int:
        """Return the partition to send to: mostly an id's home."""
        partitions = self._settings.topics.partitions
        if id_ is None or self._rnd.random() < self._across:
            return self._rnd.randrange(partitions)
        return home_partition(id_, self._settings.topics.inputs, partitions)

    def _schedule(self, number: int, id_: str | None, at_s: float, due: int) -> Ask:
        rnd = self._rnd
        to = rnd.choice(sorted(self._destinations))
        url = self._web.url()
        headers: Headers = [("delay-to", (url or to).encode()), ("delay-at", b"%d" % due), ("users", b"own")]
        if id_ is not None:
            headers.append(("delay-id", id_.encode()))
        if rnd.random() < 0.2:
            to_partition = b"%d" % rnd.randrange(self._destinations[to])
            headers += [("delay-to-partition", to_partition)] if url is None else []
        if rnd.random() < 0.15:
            headers.append(("delay-max-late", b"%d" % rnd.choice((100, 500, 2_000))))
            headers.append(("delay-if-late", rnd.choice((b"deliver", b"drop", b"dead-letter"))))
        if rnd.random() < 0.15:
            headers.append(("delay-dedupe", b"60000"))
        if id_ is not None and rnd.random() < self._plan.jittered:
            jitter_ms = rnd.choice((1, 50, 400))
            headers.append(("delay-jitter", b"%d" % jitter_ms))
            due = spread(id_, due, jitter_ms)
        if rnd.random() < 0.3:
            headers += [("users", b"other"), ("empty", None)]
        key = None if rnd.random() < 0.1 else b"k%d" % rnd.randrange(5)
        value = None if rnd.random() < 0.05 else b"%d:" % number + rnd.randbytes(rnd.randint(0, 40))
        if rnd.random() < 0.04:
            value = b"%d:" % number + bytes(LARGEST)
        return Ask(at_s, self._place(id_), "schedule", id_, due, headers, key, value)

    def _command(self, number: int, turn: int, request: Ask) -> None:
        rnd = self._rnd
        before = len(self._asks)
        self._give(number, turn, request)
        if rnd.random() < self._plan.waited:
            ask = self._asks[before]
            asked_ms = EPOCH_MS + round(max(0.0, ask.at_s - rnd.uniform(0, 1.5)) * 1000)
            ask.headers.append(("delay-asked-at", b"%d" % asked_ms))

    def _give(self, number: int, turn: int, request: Ask) -> None:
        rnd = self._rnd
        assert request.id is not None
        assert request.due_ms is not None
        op = rnd.choice(("cancel", "cancel", "reschedule", "deliver-now", "replace", "again"))
        at_s = max(0.0, request.at_s + rnd.choice((-0.1, 0.02, 0.2, 0.6, 1.5)) + rnd.uniform(0, 0.1))
        if op in ("replace", "again"):
            due = int(request.said("delay-at") or "") if op == "again" else self._when(at_s, far=False)
            self._asks.append(self._schedule(number * 100 + turn, request.id, at_s, due))
            return
        headers: Headers = [("delay-op", op.encode()), ("delay-id", request.id.encode())]
        new = None
        if op == "reschedule":
            new = self._when(at_s, far=rnd.random() < 0.1)
            headers.append(("delay-at", b"%d" % new))
        if rnd.random() < 0.1:
            headers.append(("delay-if-due", b"%d" % rnd.choice((request.due_ms, request.due_ms + 1))))
        self._asks.append(Ask(at_s, self._place(request.id), op, request.id, new, headers, None, None))
