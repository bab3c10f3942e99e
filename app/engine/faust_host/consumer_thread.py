"""The thread of the group's consumer; each place that changes Faust's behaviour names the upstream line."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiokafka
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from app.kafka.patches import lenient_records


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The consumer's thread, with a consumer that reads committed records and does not wait for idle partitions.

    Faust hard-codes fetch_max_wait_ms=1500 (drivers/aiokafka.py, _create_worker_consumer), which lets idle partitions
    delay busy ones, and reads aborted transactions unless it is in exactly-once mode itself.
    """

    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        made = driver.aiokafka.AIOKafkaConsumer

        def new_consumer(**options: Any) -> aiokafka.AIOKafkaConsumer:
            # With "none", records that were deleted unread are not skipped silently.
            options |= {"fetch_max_wait_ms": 100, "isolation_level": "read_committed", "auto_offset_reset": "none"}
            return made(**options)

        lenient_records.install()
        driver.aiokafka.AIOKafkaConsumer = new_consumer
        try:
            return super()._create_worker_consumer(transport)
        finally:
            driver.aiokafka.AIOKafkaConsumer = made

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Fetch no records until each partition has a position.

        Otherwise aiokafka requests the committed offset of one partition after the other (fetcher.py,
        _update_fetch_positions), and does not fetch from a broker in the meantime.
        """
        assignment = self._ensure_consumer()._subscription.subscription.assignment
        for tp in assigned:
            state = assignment.state_value(aiokafka.TopicPartition(tp.topic, tp.partition))
            state.pause()
            state.seek(0)
        await super().on_partitions_assigned(assigned, generation_id)

    async def getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:  # noqa: ASYNC109 - Faust's
        """Fetch in the thread directly: Faust uses a queue with two workers (mode/threads.py:346)."""
        consumer = self._ensure_consumer()
        fetch = self._fetch_records(consumer, active_partitions, timeout, consumer._max_poll_records)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(fetch, self.thread_loop))

    async def _fetch_records(self, consumer: Any, *args: Any, **options: Any) -> Any:
        """Return the next records; partitions that had some come last the next time.

        aiokafka takes records from the first partition that has any (fetcher.py, fetched_records), so one with a
        megabyte of small records would delay the others until all are read.
        """
        records = await super()._fetch_records(consumer, *args, **options)
        fetched = consumer._fetcher._records
        for tp in records:
            if tp in fetched:
                fetched[tp] = fetched.pop(tp)
        return records

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit only assigned partitions; with none left, Faust would crash (drivers/aiokafka.py:798)."""
        return not self.assignment().isdisjoint(offsets) and await super()._commit(offsets)
