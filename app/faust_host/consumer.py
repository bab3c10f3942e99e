"""The group's consumer as Punctual has it: each place where Faust is bent names the upstream line it answers.

Faust keeps the group, the assignment, the web server and the agent. It hands over whole chunks of records instead of
single ones, and leaves positions, recovery and commits to the table, which knows better (faust-streaming 0.15.3).
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import aiokafka
import faust
import uvloop
from faust.tables.manager import TableManager
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode import Service

from app.errors import InputGone
from app.kafka.metadata.leave_group import leave_group
from app.kafka.patches import lenient_records
from app.partition import pacing
from app.process.fatal import end_process

log = logging.getLogger(__name__)

#: Records handed to the agent in one go.
CHUNK = 2_000
_IDLE_POLL_S, _BUSY_POLL_S = 0.25, 0.02
_SENSOR_S = 0.1
#: How often it is looked how far partitions have been fetched, when none catches up.
_REACHED_EVERY_S = 0.25
#: Chunks of one topic partition on their way: one at work, one to follow.
_AHEAD = 2


class Chunk:
    """Records of one topic partition, in order, that Faust handles as one message."""

    __slots__ = (
        "_records",
        "checksum",
        "generation",
        "headers",
        "key",
        "offset",
        "partition",
        "serialized_key_size",
        "serialized_value_size",
        "timestamp",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(self, records: Sequence[Any], generation: int) -> None:
        """Wrap records that were fetched in a generation of the group; their last one's place stands for all."""
        self.generation = generation
        last = records[-1]
        self.topic, self.partition, self.offset = last.topic, last.partition, last.offset
        self.timestamp = last.timestamp
        self.key = self.headers = self.checksum = self.timestamp_type = None
        self.value = self
        self._records = records
        self.serialized_key_size = self.serialized_value_size = 0

    def release(self) -> Sequence[Any]:
        """Return the records, once: what Faust keeps of a chunk is in a cycle, and collected much later."""
        records, self._records = self._records, ()
        return records


class ChunkSchema(faust.Schema):
    """Hands a chunk through to the agent as it is: records are decoded by their dialect, not by Faust."""

    def compile(self, app: Any, **_: Any) -> Any:
        """Return the decoder that Faust's conductor calls (faust/serializers/schemas.py)."""
        create_event = app.create_event

        async def decode(message: Any, **_: Any) -> Any:
            return create_event(None, message.value, None, message)

        return decode


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The consumer's thread, with a consumer that reads committed records and does not wait for idle partitions.

    Faust hard-codes fetch_max_wait_ms=1500 (drivers/aiokafka.py, _create_worker_consumer), which lets idle partitions
    hold up busy ones, and reads aborted transactions unless it is in exactly-once mode itself.
    """

    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        made = driver.aiokafka.AIOKafkaConsumer

        def consumer(**options: Any) -> aiokafka.AIOKafkaConsumer:
            options |= {"fetch_max_wait_ms": 100, "isolation_level": "read_committed"}
            return made(**options)

        lenient_records.install()
        driver.aiokafka.AIOKafkaConsumer = consumer
        try:
            return super()._create_worker_consumer(transport)
        finally:
            driver.aiokafka.AIOKafkaConsumer = made

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Have nothing fetched until each partition is sought.

        Else aiokafka asks for the committed offset of one partition after the other (fetcher.py,
        _update_fetch_positions), and fetches nothing from a broker as long as that goes on.
        """
        assignment = self._ensure_consumer()._subscription.subscription.assignment
        for tp in assigned:
            state = assignment.state_value(aiokafka.TopicPartition(tp.topic, tp.partition))
            state.pause()
            state.seek(0)
        await super().on_partitions_assigned(assigned, generation_id)


class Consumer(driver.Consumer):
    """Fetches in chunks, with as much on its way as the partitions can take, and commits the table's positions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Begin with nothing on its way."""
        super().__init__(*args, **kwargs)
        self._ahead: dict[TP, int] = {}
        #: Up to where each partition was fetched before the fetch that is under way began. All of that has been handed
        #: over; aiokafka's own positions move on before what is fetched gets here from its thread.
        self.reached: dict[TP, int] = {}
        self._reached_s = 0.0
        #: Set while no fetch is under way.
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.beat_s = 0.0
        #: Whether no requests are taken at the moment: the disk is nearly full.
        self.held_back = False

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, thread_loop=uvloop.new_event_loop(), beacon=self.beacon)

    def done(self, chunk: Chunk) -> None:
        """Hear that a chunk is in the table."""
        if chunk.generation == self.app.consumer_generation_id:
            self._ahead[TP(chunk.topic, chunk.partition)] -= 1

    async def _drain_messages(self, fetcher: Any) -> None:
        """Feed the streams: in place of Faust's loop, which makes four tasks for each message (consumer.py:1220)."""
        try:
            while not (self._stopped.is_set() or fetcher._stopped.is_set()):
                self.beat_s = self.loop.time()
                await self._drain_once()
        except self.consumer_stopped_errors:
            if not self.app.should_stop:
                raise

    async def _drain_once(self) -> None:
        catching_up = self.app.engine.catching_up
        if catching_up or self.loop.time() - self._reached_s >= _REACHED_EVERY_S:
            self._reached_s = self.loop.time()
            states = {tp: self.state_of(tp) for tp in self._get_active_partitions()}
            self.reached = {tp: state.position for tp, state in states.items() if state and state.has_valid_position}
        if self.held_back:
            await asyncio.sleep(_IDLE_POLL_S)
            return
        if not self.flow_active:
            await self.wait(self.can_resume_flow, timeout=1.0)
            return
        open_ = {tp for tp in self._get_active_partitions() if self._ahead.get(tp, 0) < _AHEAD}
        # What is full or paused may be open before anything comes for the others.
        aside = catching_up or self._paused_partitions or len(open_) < len(self._get_active_partitions())
        poll_s = _BUSY_POLL_S if aside else _IDLE_POLL_S
        if not open_:
            await asyncio.sleep(poll_s)
            return
        generation = self.app.consumer_generation_id
        began = self.loop.time()
        self._quiet.clear()
        try:
            found = await self._getmany(active_partitions=open_, timeout=poll_s)
        finally:
            self._quiet.set()
        for tp, records in found.items():
            for begin in range(0, len(records), CHUNK):
                if not self.flow_active or generation != self.app.consumer_generation_id:
                    return  # the partitions' positions are sought anew when they are ready
                self._ahead[tp] = self._ahead.get(tp, 0) + 1
                await self.callback(self._to_message(tp, Chunk(records[begin : begin + CHUNK], generation)))
        await asyncio.sleep(self._until_beat(began) if found else 0)

    def _until_beat(self, began: float) -> float:
        """Return the seconds until the next look for records, after one that `began` then has found some."""
        now: float = self.loop.time()
        if self.app.engine.hurried:
            return max(0.0, began + pacing.SHORT_S - now)
        calm_s = pacing.calm_s(exactly_once=self.app.engine.settings.exactly_once)
        return pacing.until(calm_s, now + pacing.SHORT_S)  # what is found then has been handed over by the beat

    def _new_offset(self, tp: TP) -> int | None:
        """Return the table's position to commit: the group's offsets are for lag tools alone (consumer.py:1105)."""
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        offset: int | None = self.app.engine.position(tp.topic, tp.partition)
        return offset

    async def perform_seek(self) -> None:
        """Do nothing: partitions are sought to the table's positions as each is ready (consumer.py:569)."""

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: Faust looks for stalls by its own acks; the watchdog looks for them here."""

    async def settle(self) -> None:
        """Wait until the fetch of an earlier generation is over.

        It goes on in the new one, up to its timeout, and what it brings is dropped: positions that were sought before
        would have moved on without it.
        """
        await self._quiet.wait()

    def forget(self) -> None:
        """Forget what was on its way before a rebalance."""
        self._ahead.clear()
        self.reached.clear()

    def state_of(self, tp: TP) -> Any:
        """Return aiokafka's own state of a partition, None if it is not assigned."""
        subscription = self._thread._ensure_consumer()._subscription.subscription
        partition = aiokafka.TopicPartition(tp.topic, tp.partition)
        if subscription is None or subscription.assignment is None or partition not in subscription.assignment.tps:
            return None
        return subscription.assignment.state_value(partition)


class Transport(driver.Transport):
    """Faust's aiokafka transport with this consumer."""

    Consumer = Consumer


class GroupIntake:
    """Opens partitions of the group's consumer as they are ready."""

    def __init__(self, app: Any) -> None:
        """Serve the consumer of `app`."""
        self._app = app

    async def begin(self, partition: int, offsets: dict[str, int]) -> None:
        """Seek each input topic's partition to its offset and let records come."""
        consumer = self._app.consumer
        tps = {TP(topic, partition): offset for topic, offset in offsets.items()}
        await consumer._thread.call_thread(self._seek, consumer._thread._ensure_consumer(), tps)
        consumer.resume_partitions(set(tps))

    @staticmethod
    async def _seek(consumer: aiokafka.AIOKafkaConsumer, tps: dict[TP, int]) -> None:
        for (topic, number), offset in tps.items():
            partition = aiokafka.TopicPartition(topic, number)
            consumer.seek(partition, offset)
            consumer.resume(partition)

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which records are in the table or were none for it; None if not known."""
        return None if self.ahead(topic, partition) else self._app.consumer.reached.get(TP(topic, partition))

    def ahead(self, topic: str, partition: int) -> bool:
        """Return whether records have been fetched that are not in the table yet."""
        return bool(self._app.consumer._ahead.get(TP(topic, partition), 0))

    def heard(self, topic: str, partition: int) -> float | None:
        """Return when a broker last said what there is to read; None if it isn't to be read now."""
        consumer = self._app.consumer
        state = None if consumer.held_back else consumer.state_of(TP(topic, partition))
        return (state.timestamp or 0) if state is not None else None


class Handover(Service):
    """Stands where Faust's recovery stands (tables/recovery.py): hands partitions to their ownership instead."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        """Serve `app`."""
        super().__init__(**kwargs)
        self.app = app
        self.completed = asyncio.Event()

    def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Leave it to the revocation signal, which can wait."""

    async def on_rebalance(self, assigned: set[TP], *_: Any) -> None:
        """Begin to take the assigned partitions in; does not wait for them, so that the group goes on."""
        consumer, generation = self.app.consumer, self.app.consumer_generation_id
        consumer.forget()
        numbers = {tp.partition for tp in assigned if tp.topic == self.app.settings.requests}
        ownership = self.app.engine.ownership
        missing = ownership.topics - {tp.topic for tp in assigned}
        if assigned and missing:
            # A static member that comes back is given the same assignment again, without the topic.
            await leave_group(self.app.engine.cluster, self.app.conf.id, self.app.conf.consumer_group_instance_id)
            end_process(InputGone(missing))
        await ownership.revoke()
        await consumer.settle()
        consumer.pause_partitions(assigned)
        self.app.flow_control.resume()
        consumer.resume_flow()
        await self.app._fetcher.maybe_start()
        await ownership.assign(numbers, generation)
        self.completed.set()
        self.app.tables.on_actives_ready()
        self.app.tables.on_standbys_ready()
        # Faust ends the rebalance's sensor after this returns (app/base.py:1778), and wants it to be there then.
        asyncio.get_running_loop().call_later(_SENSOR_S, self.app.on_rebalance_end)
        log.info("assigned partitions %s", sorted(numbers))


class Tables(TableManager):
    """Faust's table manager without its recovery: the changelog is not part of the group's subscription."""

    _recovery: Handover | None = None

    @property
    def recovery(self) -> Handover:
        """What takes assigned partitions in."""
        if self._recovery is None:
            self._recovery = Handover(self.app, beacon=self.beacon, loop=self.loop)
        return self._recovery

    async def on_start(self) -> None:
        """Start at once: Faust sleeps a second here (tables/manager.py:140)."""
        await self._update_channels()
        await self.recovery.start()

    async def _update_channels(self) -> None:
        self._tables_finalized.set()
        for table in self.values():
            await table.maybe_start()
        self._tables_registered.set()
