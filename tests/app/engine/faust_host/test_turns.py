"""Partitions take turns: one with many records does not keep the others waiting."""

import asyncio
from types import SimpleNamespace
from typing import Any

from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.structs import TopicPartition
from faust.types import TP

from app.engine.faust_host.consumer import Consumer
from app.engine.faust_host.consumer_thread import ConsumerThread


class Buffered(FetchResult):
    """Records of one partition that were fetched."""

    def __init__(self, number: int) -> None:
        self.left = list(range(number))

    def getall(self, max_records: int | None = None) -> list[int]:
        taken, self.left = self.left[:max_records], self.left[max_records:]
        return taken

    def has_more(self) -> bool:
        return bool(self.left)


async def test_a_flooded_partition_does_not_keep_the_others_waiting(monkeypatch: Any) -> None:
    monkeypatch.setattr("aiokafka.consumer.fetcher.FetchResult", Buffered)
    flooded, other = TopicPartition("flooded", 0), TopicPartition("other", 0)
    fetcher = object.__new__(Fetcher)
    fetcher._records = {flooded: Buffered(100_000), other: Buffered(5)}
    fetcher._subscriptions = SimpleNamespace(reassignment_in_progress=False, fetch_context=_context)
    fetcher._closed, fetcher._wait_consume_future = False, None
    monkeypatch.setattr(fetcher, "_notify", lambda _: None)
    thread = object.__new__(ConsumerThread)
    thread.consumer = SimpleNamespace(flow_active=True)
    consumer = SimpleNamespace(_fetcher=fetcher, _closed=False)

    seen = [await thread._fetch_records(consumer, {flooded, other}, 0, 2_000) for _ in range(2)]

    assert [set(found) for found in seen] == [{flooded}, {other, flooded}]


class _context:  # noqa: N801
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


async def test_a_partition_with_two_chunks_on_their_way_is_not_fetched() -> None:
    full, other = TP("flooded", 0), TP("other", 0)
    fetched, loop = list[set[TP]](), asyncio.get_running_loop()

    async def fetch(partitions: set[TP], _: float) -> dict[TP, list[Any]]:
        fetched.append(partitions)
        return {}

    host: Any = SimpleNamespace(
        app=SimpleNamespace(engine=SimpleNamespace(catching_up=False), consumer_generation_id=1),
        loop=loop,
        held_back=False,
        flow_active=True,
        _reached_s=loop.time(),
        _ahead={full: 2, other: 1},
        _paused_partitions=set(),
        _get_active_partitions=lambda: {full, other},
        _fetch=fetch,
    )
    await Consumer._drain_once(host)

    assert fetched == [{other}]
