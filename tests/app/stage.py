"""Partitions, due loop and courier as a worker has them, with a journal that never fails and a sender on a script."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import msgspec
from aiokafka.record.memory_records import MemoryRecords

from app.engine.deliver.destination_cluster import DestinationCluster
from app.engine.deliver.dispatcher import Dispatcher
from app.engine.due.due_loop import FIRE_BATCH, DueLoop
from app.engine.partition.partition import Partition
from app.engine.partition.services import Services
from app.engine.steps.outcomes import Delivered
from app.engine.steps.step import OutgoingRecord, Step
from app.engine.throttle.control import Control
from app.engine.throttle.throttle import Throttle
from app.engine.topics.internal_topics import TopicLimits
from app.kafka import Ack, Batch
from app.kafka.errors import SendError
from app.settings.settings import Settings
from punctual.contract.destination import Destination, destination
from punctual.contract.record import Record
from tables import PartitionStore
from tests.app.base.test_clock import SimulatedClock
from tests.app.workbench import BROAD, Event
from tests.harness.waiting import LIMIT_S
from tests.punctual.contract.records import Log

if TYPE_CHECKING:
    from app.engine.commit.journal import Journal
    from app.kafka import Cluster, Sender


class Delivery(NamedTuple):
    """A record as it was sent."""

    to: str
    partition: int
    id: str
    value: bytes | None
    due: int
    at: int


class ScriptedSender:
    """Replaces app.kafka.Sender: batches wait until the test sets their outcome."""

    def __init__(self) -> None:
        """Block nothing."""
        self.waiting: list[tuple[list[Delivery], asyncio.Future[Ack]]] = []
        self.taken: list[Delivery] = []
        self.stuck: dict[tuple[str, int], float] = {}
        self.given_up: list[tuple[str, int]] = []
        self.let_gone: list[tuple[str, int]] = []

    def submit(self, topic: str, partition: int, batch: Batch, *, first: bool = False) -> "asyncio.Future[Ack]":
        """Hold a batch."""
        acked: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        records = MemoryRecords(batch.build(1, 0, 0)).next_batch()
        deliveries = []
        for record in records:
            headers = dict(record.headers)
            deliveries.append(
                Delivery(
                    topic,
                    partition,
                    headers["delay-id"].decode(),
                    record.value,
                    int(headers["delay-due"]),
                    record.timestamp,
                )
            )
        self.waiting.insert(0 if first else len(self.waiting), (deliveries, acked))
        return acked

    def blocked(self, topic: str, partition: int) -> bool:
        """Return whether the test has blocked a partition."""
        return (topic, partition) in self.stuck

    def blocked_s(self, topic: str, partition: int) -> float:
        """Return for how long, as the test says."""
        return self.stuck.get((topic, partition), 0.0)

    def recall(self, topic: str, partition: int) -> None:
        """Take back no batch: each batch is on its way."""

    def give_up(self, topic: str, partition: int) -> None:
        """Note it."""
        self.given_up.append((topic, partition))

    def let_go(self, topic: str, partition: int) -> None:
        """Note it."""
        self.let_gone.append((topic, partition))

    # actions of the test ---------------------------------------------------------------------------------------------
    def ids(self) -> list[str]:
        """Return the IDs of the waiting batches, in order."""
        return [delivery.id for batch, _ in self.waiting for delivery in batch]

    def accept(self, count: int = 1_000) -> None:
        """Acknowledge the batches that wait."""
        for _ in range(min(count, len(self.waiting))):
            batch, acked = self.waiting.pop(0)
            acked.set_result(Ack(len(self.taken), -1))
            self.taken += batch

    def refuse(self, error: SendError) -> None:
        """Let the first batch that waits fail."""
        _, acked = self.waiting.pop(0)
        acked.set_exception(error)


class Destinations:
    """Stands where app.kafka.Cluster stands for destinations."""

    def __init__(self) -> None:
        """Have topics of 4 partitions."""
        self.topics = {"orders": 4, "payments": 4}
        self.asked = 0

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions."""
        return self.topics.get(topic, 0)

    async def learn(self, topics: Iterable[str]) -> None:
        """Know nothing more."""

    async def refresh(self, topics: Iterable[str]) -> set[str]:
        """Say which are not there."""
        self.asked += 1
        return {topic for topic in topics if topic not in self.topics}


class Applied:
    """Replaces app.engine.commit.journal.Journal: a committed step is applied when the test lets it."""

    def __init__(self, stage: "Stage") -> None:
        """Commit at once."""
        self._stage = stage
        self.failure: Exception | None = None
        self._sizes: list[int] = []
        #: What each step has sent.
        self.sends: list[list[OutgoingRecord]] = []
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()

    def reached(self, point: str, step: Step | None) -> None:
        """Nothing ends here."""

    async def deliver(self, partition: int, step: Step) -> Sequence[Delivered]:  # noqa: ARG002 - the journal's signature
        """Take no deliveries along with steps."""
        return ()

    async def commit(self, partition: int, step: Step) -> None:
        """Apply a step."""
        self.asked += 1
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        self._sizes.append(step.size)
        self.sends.append(step.sends)
        store = self._stage.stores[partition]
        self._stage.events += [msgspec.json.decode(raw) for told in step.events for _, raw in told]
        self._stage.dead_letters += [out for out in step.sends if out.topic == "delay-dead-letters"]
        records = list(step.changes.records(store.writer))
        store.apply(step.changes, store.offset + len(records), store.writer, step.now_ms)

    def count_commits(self) -> list[int]:
        """Return a list to which the size of each step to come is added."""
        self._sizes = []
        return self._sizes

    async def check_alone(self, partition: int, now_ms: int) -> None:
        """Report no other worker."""


class Stage(AbstractAsyncContextManager["Stage", None]):
    """The assembled parts, with a clock that the test sets."""

    def __init__(self, path: Path, partitions: int = 1, batch: int = FIRE_BATCH, /, **env: str) -> None:
        """Assemble `partitions` partitions, each of which delivers at most `batch` rows in a cycle."""
        self.settings = Settings.from_env({**BROAD, "DELAY_PARTITIONS": "1", **env})
        self.clock = SimulatedClock()
        self.clock.compare(self.clock.wall, self.clock.wall, self.clock.wall)
        self.sender, self.destinations, self.journal = ScriptedSender(), Destinations(), Applied(self)
        target = DestinationCluster(cast("Cluster", self.destinations), cast("Sender", self.sender))
        self.dispatcher = Dispatcher(
            self.settings.destinations, self.clock, dict.fromkeys((None, *self.settings.kafka.clusters), target)
        )
        self.partitions: dict[int, Partition] = {}
        self.controls: dict[Destination, Control] = {}
        throttle = Throttle(
            self.settings.kafka, self.settings.topics, self.settings.destinations, self.clock, self.controls
        )
        self.due = DueLoop(self.settings, self.clock, self.dispatcher, self.partitions, throttle=throttle, batch=batch)
        self.events: list[Event] = []
        self.dead_letters: list[Any] = []
        self.failures: list[BaseException] = []
        self.stores = {number: PartitionStore(path / f"{number}.db") for number in range(partitions)}
        self.logs = {number: Log("delay-requests", number) for number in range(partitions)}
        limits, journal = (
            TopicLimits(1 << 20, 1 << 20, 1 << 20, cold=bool(self.settings.retention.horizon_ms)),
            cast("Journal", self.journal),
        )
        services = Services(self.settings, self.clock, journal, self.destinations, limits)
        self.lost_inputs: list[Partition] = []
        for number in range(partitions):
            self.partitions[number] = Partition(number, services, self.due, self.lost_inputs.append)
            self.begin(number)

    def begin(self, number: int) -> None:
        """Begin a life of a partition."""
        self.due.partitions[number].start(self.stores[number], self.failures.append)
        self.due.partitions[number].go_live()

    async def __aenter__(self) -> Self:
        """Go on stage."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all parts; fail if any of them has failed."""
        for partition in self.due.partitions.values():
            await partition.pause(0)
        for store in self.stores.values():
            store.close()
        assert not self.failures

    @property
    def partition(self) -> Partition:
        """The first partition."""
        return self.due.partitions[0]

    async def ask(self, number: int = 0, /, **said: str | bytes | None) -> None:
        """Take a request in."""
        await self.take(number, [self.logs[number].record(self.clock.wall, **said)])

    async def take(self, number: int, records: Sequence[Record]) -> None:
        """Take records in."""
        async with asyncio.timeout(LIMIT_S):
            await self.due.partitions[number].offer(records)

    async def schedule(self, id_: str, late: int = 0, number: int = 0, /, **said: str | bytes | None) -> None:
        """Take a message in that has been due for `late` ms."""
        at = str(self.clock.wall - late)
        await self.ask(number, **{"delay_id": id_, "delay_to": "orders", "delay_at": at, **said})

    def control(self, name: str, **said: Any) -> None:
        """Set the control of a destination; without one, only the settings apply."""
        if said:
            self.controls[destination(name)] = Control(**said)
        else:
            del self.controls[destination(name)]
        self.due.obey()

    def fire(self) -> list[str]:
        """Run one cycle of the due loop; return the ids that wait to be sent."""
        self.due.cycle(self.clock.now_ms())
        return self.sender.ids()

    async def settle(self) -> None:
        """Wait until every outcome that has come is in the table."""
        await asyncio.sleep(0)  # futures tell their callbacks
        partitions = self.due.partitions.values()
        await self.until(
            lambda: all(not p.writer._outcomes and p.idle and p.in_flight._step is None for p in partitions)
        )

    @staticmethod
    async def until(condition: Callable[[], object]) -> None:
        """Wait for something that comes about by itself."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():  # noqa: ASYNC110 - it comes about in code that knows no events of tests
                await asyncio.sleep(0.001)

    def told(self) -> list[str]:
        """Return the events' names and ids but those of acceptance."""
        return [f"{event['event']} {event['id']}" for event in self.events if event["event"] != "accepted"]
