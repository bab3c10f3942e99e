"""The group's consumer; each place that changes Faust's behaviour names the upstream line.

Faust runs the group, the assignment, the web server and the agent. It passes on chunks of records instead of single
ones, and leaves positions, recovery and commits to the table (faust-streaming 0.15.3).
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import aiokafka.errors
import uvloop
from faust.transport import consumer
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode import Service

from app.base.errors import GroupLost, InputGone
from app.base.process.fatal import end_process
from app.base.process.skipped_records import note_deleted
from app.engine.faust_host.chunk import Chunk, FetchedChunks
from app.engine.faust_host.consumer_thread import ConsumerThread
from app.engine.partition import pacing
from app.kafka.metadata.consumer_group import leave_group
from app.kafka.metadata.reader import PartitionReader
from app.kafka.patches import lenient_records
from app.kafka.patches.heavy_batches import heavy
from app.kafka.patches.leader_epochs import epochs

log = logging.getLogger(__name__)

#: Records handed to the agent in one go.
CHUNK = 2_000
_IDLE_POLL_S, _BUSY_POLL_S = 0.25, 0.02
#: How often the fetched positions of partitions are read while none is catching up.
_REACHED_EVERY_S = 0.25
#: Maximum seconds to find out whether a new leader has all records that were read.
_UNCUT_S = 5.0
#: Chunks of one topic partition in flight: one being processed, one to follow.
_AHEAD = 2


class Consumer(driver.Consumer):
    """Fetches in chunks, as many as the partitions can process, and commits the table's positions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a consumer with no chunks in flight."""
        super().__init__(*args, **kwargs)
        self._ahead: dict[TP, int] = {}
        #: Position of each partition before the present fetch. All earlier records have been passed on; aiokafka's own
        #: positions move before fetched records arrive here from its thread.
        self.reached: dict[TP, int] = {}
        self._reached_s = 0.0
        #: Set while no fetch is running.
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.beat_s = 0.0
        #: Whether requests are not read at the moment, because the disk is nearly full.
        self.held_back = False

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, thread_loop=uvloop.new_event_loop(), beacon=self.beacon)

    async def on_shutdown(self) -> None:
        """Leave the group at once, because a silent static member keeps its partitions for a whole session.

        Databases are closed by now, and the thread has ended. HTTP requests that are still being answered take longer.
        """
        await super().on_shutdown()
        conf = self.app.conf
        if conf.consumer_group_instance_id:  # otherwise the start was interrupted
            await leave_group(self.app.engine.cluster, conf.id, conf.consumer_group_instance_id)

    def done(self, chunk: Chunk) -> None:
        """Note that a chunk is in the table."""
        if chunk.generation == self.app.consumer_generation_id:
            self._ahead[TP(chunk.topic, chunk.partition)] -= 1
            heavy.send_on(-chunk.heavy)

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
        # Full or paused partitions may open before records arrive for the others.
        aside = catching_up or self._paused_partitions or len(open_) < len(self._get_active_partitions())
        aside = aside or heavy.waiting
        poll_s = _BUSY_POLL_S if aside else _IDLE_POLL_S
        if not open_:
            await asyncio.sleep(poll_s)
            return
        generation = self.app.consumer_generation_id
        began = self.loop.time()
        fetched = await self._fetch(open_, poll_s)
        # Otherwise a rebalance has begun, and the partitions' positions are sought again when they are ready.
        if fetched and generation == self.app.consumer_generation_id:
            chunks = []
            for tp, records in fetched.items():
                weighs, begins = type(records) is lenient_records.Heavy, range(0, len(records), CHUNK)
                new = [Chunk(records[begin : begin + CHUNK], generation, heavy=weighs) for begin in begins]
                self._ahead[tp] = self._ahead.get(tp, 0) + len(new)
                heavy.send_on(len(new) * weighs)
                chunks += new
            if self.flow_active:  # otherwise a rebalance begins: dropped chunks count until forget()
                tp, records = next(iter(fetched.items()))
                await self.callback(self._to_message(tp, FetchedChunks(chunks, records[-1].offset)))
        await asyncio.sleep(self._until_beat(began) if fetched else 0)

    async def _fetch(self, open_: set[TP], poll_s: float) -> Any:
        """Return the next records by partition."""
        self._quiet.clear()
        try:
            fetched = await self._getmany(active_partitions=open_, timeout=poll_s)
        except self.consumer_stopped_errors:
            raise
        except aiokafka.errors.OffsetOutOfRangeError as error:
            await self._thread.call_thread(self._skip_deleted, error.args[0])
            return {}
        except aiokafka.errors.KafkaError as error:
            end_process(GroupLost(error))
        finally:
            self._quiet.set()
        if epochs.risen:
            await self._see_uncut()
        return fetched

    async def _see_uncut(self) -> None:
        """End the process if the records of a new leader do not follow the records of the old one.

        In that case the log lost its end and grew again beyond the position, so earlier records are unread.
        """
        while epochs.risen:
            tp, (offset, last) = epochs.risen.popitem()
            try:
                async with asyncio.timeout(_UNCUT_S):
                    before = await PartitionReader(self.app.engine.cluster, *tp, offset - 1).leader_epoch()
            except (aiokafka.errors.OffsetOutOfRangeError, TimeoutError) as error:
                about = {"topic": tp[0], "partition": tp[1]}
                log.warning("%s-%d has a new leader, and its records could not be checked: %r", *tp, error, extra=about)
                continue
            if before is not None and before > last:
                end_process(InputGone([tp[0]]))

    async def _skip_deleted(self, places: Mapping[aiokafka.TopicPartition, int]) -> None:
        """Continue partitions at their first offset if earlier records were deleted, otherwise end the process."""
        consumer = self._thread._ensure_consumer()
        for partition, offset in places.items():
            try:
                begin = (await consumer.beginning_offsets([partition]))[partition]
            except aiokafka.errors.KafkaError:
                return  # the next fetch has the same offset, and fails here again
            if begin <= offset:
                end_process(InputGone([partition.topic]))
            state = self.state_of(TP(*partition))
            if state is not None and state.position == offset:  # otherwise it was revoked or sought in the meantime
                note_deleted(partition.topic, partition.partition, offset, begin)
                consumer.seek(partition, begin)
                epochs.forget((partition.topic, partition.partition))

    def _until_beat(self, began: float) -> float:
        """Return the seconds until the next fetch, if the last one `began` then and returned records."""
        now: float = self.loop.time()
        if self.app.engine.hurried:
            return max(0.0, began + pacing.SHORT_S - now)
        return pacing.until(pacing.CALM_S, now + pacing.SHORT_S)  # records found then are passed on by the beat

    def _new_offset(self, tp: TP) -> int | None:
        """Return the table's position to commit; only lag tools use the group's offsets (consumer.py:1105)."""
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        offset: int | None = self.app.engine.position(tp.topic, tp.partition)
        return offset

    def _filter_tps_with_pending_acks(self, topics: Collection[Any] | None = None) -> Iterator[TP]:
        """Return all partitions that are read, because a message of Faust's has several chunks (consumer.py:1084)."""
        read = {*self._ahead, *self.reached}
        return (tp for tp in read if topics is None or tp in topics or tp.topic in topics)

    async def _commit_offsets(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:  # noqa: FBT001, FBT002, ARG002 - Faust's
        """Commit without Faust's table for a log that is not used (consumer.py:1038)."""
        assigned = self.assignment()
        committable = {tp: offset for tp, offset in offsets.items() if tp in assigned}
        committed = bool(committable) and await self._commit(committable)
        self._committed_offset.update(committable)
        return committed

    async def perform_seek(self) -> None:
        """Do nothing: partitions are sought to the table's positions as each is ready (consumer.py:569)."""

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: Faust detects stalls by its own acks, which the watchdog replaces."""

    async def settle(self) -> None:
        """Wait until the fetch of an earlier generation has ended.

        It continues in the new one, up to its timeout, and its records are dropped. Positions that were sought before
        its end would have moved past these records.
        """
        await self._quiet.wait()

    def forget(self) -> None:
        """Forget chunks in flight, before a rebalance."""
        self._ahead.clear()
        heavy.forget()
        self.reached.clear()

    def state_of(self, tp: TP) -> Any:
        """Return aiokafka's own state of a partition, None if it is not assigned."""
        subscription = self._thread._ensure_consumer()._subscription.subscription
        partition = aiokafka.TopicPartition(tp.topic, tp.partition)
        if subscription is None or subscription.assignment is None or partition not in subscription.assignment.tps:
            return None
        return subscription.assignment.state_value(partition)


class Fetcher(consumer.Fetcher):
    """Runs the consumer's loop, and ends with the process.

    During a rebalance, Faust takes each cancellation for a crash, also when the process is being stopped: it would end
    with a traceback and code 1 (transport/consumer.py, Fetcher._fetcher).
    """

    @Service.task
    async def _fetcher(self) -> None:
        try:
            await self.app.consumer._drain_messages(self)
        except asyncio.CancelledError as error:
            if not (self.should_stop or self.app.should_stop):
                await self.crash(error)
                raise
        finally:
            self.set_shutdown()


class Transport(driver.Transport):
    """Faust's aiokafka transport with this consumer."""

    Consumer = Consumer
    Fetcher = Fetcher
