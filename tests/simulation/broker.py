"""Brokers, at the level of requests and responses: a worker's code sends and gets real ones, batches included."""

import random
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from app.kafka.metadata.coordinators import FindCoordinators
from app.kafka.metadata.describe_transactions import Describe, DescribeProducers
from app.kafka.metadata.topic_ids import AskTopics
from app.kafka.transactions.next_epoch import NextEpoch
from tests.simulation.coordinator import Coordinator, TopicPartition
from tests.simulation.log import Log, Sent, is_transactional, producer_of
from tests.simulation.loop import EPOCH_MS, Loop, Process
from tests.simulation.network import Network
from tests.simulation.trace import exchange

if TYPE_CHECKING:
    from collections.abc import Callable

NODES = (1, 2)
_NONE, _UNKNOWN_TOPIC, _NOT_LEADER, _TIMED_OUT, _TOO_LARGE = 0, 3, 6, 7, 10
_LOADING, _NO_COORDINATOR, _NOT_COORDINATOR, _FEW_REPLICAS, _FEW_REPLICAS_AFTER, _OUT_OF_RANGE = 14, 15, 16, 19, 20, 1
_BEFORE, _AFTER = (_NOT_LEADER, _FEW_REPLICAS), (_FEW_REPLICAS_AFTER, _TIMED_OUT)
_COORDINATOR = NODES[0]
_UNKNOWN_ID = 105
_EARLIEST = -2
_COMMITTED = 1


class Call(NamedTuple):
    """A request that has reached a broker."""

    node: int
    request: Any
    sent: Sent
    #: Decides about faults of this request.
    rnd: random.Random


class Topics(NamedTuple):
    """An answer about partitions of topics."""

    topics: list[Any]


class Errors(NamedTuple):
    """An answer to AddPartitionsToTxn."""

    errors: list[tuple[str, list[tuple[int, int]]]]


class Identity(NamedTuple):
    """An answer to InitProducerId."""

    error_code: int
    producer_id: int
    producer_epoch: int


class Ended(NamedTuple):
    """An answer to EndTxn."""

    error_code: int


class Coordinators(NamedTuple):
    """An answer to FindCoordinator."""

    coordinators: list[tuple[Any, ...]]


class States(NamedTuple):
    """An answer to DescribeTransactions."""

    states: list[tuple[Any, ...]]


class Broker:
    """A cluster of two brokers."""

    def __init__(self, loop: Loop, seed: int, world: Process) -> None:
        """Begin without topics."""
        self._loop = loop
        self.network = Network(loop, seed, self.serve, world)
        self.logs: dict[str, list[Log]] = {}
        self.leaders: dict[TopicPartition, int] = {}
        #: Another one for each life of a topic.
        self.ids: dict[str, str] = {}
        #: How far the group has read inputs, as it has committed when all was settled.
        self.committed: dict[TopicPartition, int] = {}
        rnd = random.Random(f"{seed}-coordinator")  # noqa: S311
        self.coordinator = Coordinator(
            loop,
            rnd,
            lambda place: self.logs[place[0]][place[1]],
            lambda place: place in self.refusing,
            lambda place: self.leaders[place] in self.network.down,
        )
        #: Nodes that never come back.
        self.gone = set[int]()
        #: What destinations refuse, by error code, and how long others hold their answers back.
        self.refusing: dict[TopicPartition, int] = {}
        self.holding: dict[TopicPartition, float] = {}
        #: Each number stands for every third transactional id: the coordinator of such ids is still loading its log.
        self.loading: set[int] = set()
        #: Values larger than this are refused.
        self.largest: dict[str, int] = {}
        #: Whether brokers ask the coordinator before they take a batch into a transaction (KIP-890).
        self.verifies = True
        #: When each batch was sent for the first time, however often it was sent.
        self._first_sent: dict[tuple[str, TopicPartition, bytes], Sent] = {}
        self.trace: list[str] | None = None
        self._handlers: dict[type, Callable[[Call], tuple[Any, float]]] = {
            ProduceRequest: self._produce,
            FetchRequest: self._fetch,
            OffsetRequest: self._offsets,
            MetadataRequest: self._metadata,
            AskTopics: self._topic_ids,
            InitProducerIdRequest: self._new_producer,
            NextEpoch: self._next_epoch,
            AddPartitionsToTxnRequest: self._add,
            EndTxnRequest: self._end,
            FindCoordinators: self._find,
            Describe: self._describe,
            DescribeProducers: self._producers,
        }

    def now_ms(self) -> int:
        """Return the brokers' time."""
        return EPOCH_MS + round(self._loop.time() * 1000)

    def create(self, topic: str, partitions: int, *, append_time: bool = True) -> None:
        """Create a topic."""
        self.ids[topic] = f"{topic} of {self._loop.time()}"
        self.logs[topic] = [Log(topic, number, append_time=append_time) for number in range(partitions)]
        living = [node for node in NODES if node not in self.gone]
        for number in range(partitions):
            self.leaders[topic, number] = living[(len(self.logs) + number) % len(living)]

    def serve(self, node: int, request: Any, sent: Sent, rnd: random.Random) -> tuple[Any, float]:
        """Return the response to a request, and how long to hold it back."""
        found = self._handlers[type(request)](Call(node, request, sent, rnd))
        if self.trace is not None:
            self.note(exchange(sent.worker, request, *found))
        return found

    def note(self, line: str) -> None:
        """Add a line to the trace."""
        if self.trace is not None:
            self.trace.append(f"{self._loop.time():9.4f} {line}")

    # requests --------------------------------------------------------------------------------------------------------
    def _produce(self, call: Call) -> tuple[Any, float]:
        now, hold_s, topics = self.now_ms(), 0.0, []
        for topic, batches in sorted(call.request._topics):
            answers = []
            for number, raw in sorted(batches):
                code, offset, at_ms = self._take(call, (topic, number), raw, now)
                hold_s = max(hold_s, self.holding.get((topic, number), 0.0))
                answers.append((number, code, offset, at_ms))
            topics.append((topic, answers))
        return Topics(topics), hold_s

    def _take(self, call: Call, place: TopicPartition, raw: bytes, now: int) -> tuple[int, int, int]:
        topic, number = place
        first = self._first_sent.setdefault((call.sent.worker, place, bytes(raw)), call.sent)
        if self.leaders.get(place) != call.node:
            return _NOT_LEADER if topic in self.logs else _UNKNOWN_TOPIC, -1, -1
        if place in self.refusing:
            return self.refusing[place], -1, -1
        if len(raw) > self.largest.get(topic, len(raw)):
            return _TOO_LARGE, -1, -1
        log, failing = self.logs[topic][number], 0
        if self.network.weather.error and call.rnd.random() < self.network.weather.error:
            failing = call.rnd.choice((*_BEFORE, *_AFTER))
        if failing in _BEFORE:
            return failing, -1, -1
        if self.verifies and is_transactional(raw):
            producer, epoch = producer_of(raw)
            code = 0 if producer in log.ongoing else self.coordinator.verify(producer, epoch, place)
            if code:
                return code, -1, -1
        code, offset, at_ms = log.append(raw, now, first)
        return (failing, -1, -1) if failing and not code else (code, offset, at_ms)

    def _fetch(self, call: Call) -> tuple[Any, float]:
        [(topic, [(number, offset, _)])] = call.request._topics
        if self.leaders.get((topic, number)) != call.node:
            return Topics([(topic, [(number, _NOT_LEADER, -1, -1, 0, None, b"")])]), 0.0
        log = self.logs[topic][number]
        if not log.begin <= offset <= log.end:
            return Topics([(topic, [(number, _OUT_OF_RANGE, -1, -1, 0, None, b"")])]), 0.0
        committed = call.request._isolation_level == _COMMITTED
        if (log.stable_end if committed else log.end) > offset:
            return self._fetched(log, offset, committed=committed), 0.0
        # A connection's next request waits for this one, as long as it waits for records.
        wait_s = call.rnd.uniform(0, call.request._max_wait_ms / 1000)
        return (lambda: self._fetched(log, offset, committed=committed)), wait_s

    def _fetched(self, log: Log, offset: int, *, committed: bool) -> Topics:
        batches, aborted = log.read(offset, committed=committed)
        raw = b"".join(batch.raw for batch in batches)
        dead = [(one.producer, one.first) for one in aborted]
        return Topics([(log.topic, [(log.partition, _NONE, log.end, log.stable_end, 0, dead, raw)])])

    def _offsets(self, call: Call) -> tuple[Any, float]:
        committed = call.request._isolation_level == _COMMITTED
        topics: list[Any] = []
        for topic, partitions in call.request._topics:
            answers: list[Any] = []
            for number, which in partitions:
                if self.leaders.get((topic, number)) != call.node:
                    answers.append((number, _NOT_LEADER, -1, -1))
                    continue
                log = self.logs[topic][number]
                end = log.stable_end if committed else log.end
                answers.append((number, _NONE, -1, log.begin if which == _EARLIEST else end))
            topics.append((topic, answers))
        return Topics(topics), 0.0

    def _metadata(self, call: Call) -> tuple[Any, float]:
        topics: list[Any] = []
        for topic in sorted(self.logs if call.request._topics is None else call.request._topics):
            logs = self.logs.get(topic)
            if logs is None:
                topics.append((_UNKNOWN_TOPIC, topic, False, []))
            else:
                leaders = [(log.partition, self.leaders[topic, log.partition]) for log in logs]
                down = self.network.down
                parts: list[Any] = [(_NONE, number, -1 if node in down else node, [], []) for number, node in leaders]
                topics.append((_NONE, topic, False, parts))
        return Topics(topics), 0.0

    def _topic_ids(self, call: Call) -> tuple[Any, float]:
        topics: list[Any] = []
        for topic in call.request.topics:
            if topic in self.ids:
                id_ = f"{self.ids[topic]:\0<16}".encode()
                topics.append((_NONE, topic, id_, False, list(range(len(self.logs[topic]))), 0, {}))
        return Topics(topics), 0.0

    # transactions ----------------------------------------------------------------------------------------------------
    def _find(self, call: Call) -> tuple[Any, float]:
        code = _NO_COORDINATOR if _COORDINATOR in self.network.down else _NONE
        ids = call.request.transactional_ids
        return Coordinators([(id_, -1 if code else _COORDINATOR, "", 0, code, None, {}) for id_ in ids]), 0.0

    def _unable(self, call: Call, id_: str) -> int:
        """Return the error of a coordinator that cannot answer, 0 if it can."""
        error = self.network.weather.error
        if call.node != _COORDINATOR or (error > 0 and call.rnd.random() < error):
            return _NOT_COORDINATOR
        of = crc32(id_.encode())
        return _LOADING if any((of - number) % 3 == 0 for number in self.loading) else _NONE

    def _new_producer(self, _: Call) -> tuple[Any, float]:
        return Identity(_NONE, self.coordinator.new_producer(), 0), 0.0

    def _next_epoch(self, call: Call) -> tuple[Any, float]:
        unable = self._unable(call, call.request._transactional_id)
        if unable:
            return Identity(unable, -1, -1), 0.0
        asked = call.request
        found = self.coordinator.init(asked._transactional_id, asked._timeout_ms, asked._producer)
        return Identity(*found), 0.0

    def _add(self, call: Call) -> tuple[Any, float]:
        id_ = call.request._transactional_id
        places = [(topic, number) for topic, numbers in call.request._topics for number in numbers]
        code = self._unable(call, id_)
        if not code:
            code = self.coordinator.add(id_, call.request._producer_id, call.request._producer_epoch, places)
        return Errors([(topic, [(number, code)]) for topic, number in places]), 0.0

    def _describe(self, call: Call) -> tuple[Any, float]:
        return States([self._state(call, id_) for id_ in call.request.transactional_ids]), 0.0

    def _state(self, call: Call, id_: str) -> tuple[Any, ...]:
        found, unable = self.coordinator.transactions.get(id_), self._unable(call, id_)
        if found is None or unable:
            return (unable or _UNKNOWN_ID, id_, "", 0, 0, 0, 0, [], {})
        places = found.partitions if found.state == "ongoing" else found.waiting
        waiting: list[Any] = [(topic, [number], {}) for topic, number in sorted(places)]
        return (_NONE, id_, found.state_name, 0, 0, found.producer, found.epoch, waiting, {})

    def _producers(self, call: Call) -> tuple[Any, float]:
        topics: list[Any] = []
        for topic, numbers in call.request.topics.items():
            found: list[Any] = []
            for log in (self.logs[topic][number] for number in numbers):
                if self.leaders[topic, log.partition] != call.node:
                    found.append((log.partition, _NOT_LEADER, None, [], {}))
                    continue
                known: list[Any] = [
                    (producer, epoch, 0, 0, 0, log.ongoing.get(producer, -1), {}) for producer, epoch in log.epochs()
                ]
                found.append((log.partition, _NONE, None, known, {}))
            topics.append((topic, found, {}))
        return Topics(topics), 0.0

    def _end(self, call: Call) -> tuple[Any, float]:
        unable = self._unable(call, call.request._transactional_id)
        if unable:
            return Ended(unable), 0.0
        code = self.coordinator.end(
            call.request._transactional_id,
            call.request._producer_id,
            call.request._producer_epoch,
            committing=call.request._transaction_result,
        )
        return Ended(code), 0.0
