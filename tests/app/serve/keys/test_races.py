"""Gateways that ask for the same keys in any order of events, with crashes: always the same message."""

import asyncio
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.base.process.disk_room import DiskRoom
from app.serve.keys.keys import PENDING_MS, Keys
from app.serve.keys.receipt import FirstReceipt, GivenAnswer, decode, request_digest
from app.serve.keys.store import KeyStore, Written
from app.serve.web.problem import Problem

if TYPE_CHECKING:
    from app.serve.keys.follower import ReceiptFollower, ReceiptWriter

REQUESTS = [request_digest("POST", "/api/v1/messages", body) for body in (b"{}", b"[]")]
KEYS = ["1", "2"]


class Crash(Exception):
    """The gateway ends."""


class Topic:
    """One partition that all gateways write and read, each in its own time."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.now_ms = chance, 1_800_000_000_000
        self.records: list[Written] = []

    async def turns(self) -> None:
        """Let other tasks run for a while."""
        for _ in range(self.chance.randrange(6)):
            self.now_ms += self.chance.choice((0, 0, 1, 50))
            await asyncio.sleep(0)


class Side:
    """A gateway's writer and follower, with a record of its actions for all."""

    def __init__(
        self, topic: Topic, path: Path, name: str, orders: dict[str, list[tuple[bytes, FirstReceipt]]]
    ) -> None:
        self._topic, self._orders = topic, orders
        self.store = KeyStore(path / name)
        self.partitions, self.connected, self._read = 1, True, 0
        self.keys = Keys(
            name,
            self.store,
            cast("ReceiptFollower", self),
            lambda: topic.now_ms,
            DiskRoom(Path("/")),
            without_kafka=True,
        )
        self.begun = asyncio.Event()
        self.begun.set()
        self.keys.connected(cast("ReceiptWriter", self))

    def down(self, _partition: int) -> bool:
        return False

    def write(self, _partition: int, key: bytes, value: bytes) -> "asyncio.Future[int]":
        async def write() -> int:
            await self._topic.turns()
            self._topic.records.append(Written(key, self._topic.now_ms, decode(value)))
            offset = len(self._topic.records) - 1
            await self._topic.turns()
            return offset

        return asyncio.ensure_future(write())

    async def passed(self, _partition: int, offset: int) -> None:
        while self._read <= offset:
            await self.read()

    async def read(self) -> None:
        await self._topic.turns()
        end = min(len(self._topic.records), self._read + self._topic.chance.randrange(4))
        self.store.take(0, self._topic.records[self._read : end], end)
        self._read = end

    async def ask(self, key: str, request: bytes) -> GivenAnswer | None:
        async def submit(asked: FirstReceipt) -> tuple[GivenAnswer, bool]:
            await self._topic.turns()
            if self._topic.chance.random() < 0.2:
                raise Crash
            self._orders[key].append((request, asked))
            await self._topic.turns()
            return GivenAnswer(self._topic.chance.choice((201, 202)), key), True

        try:
            return (await self.keys.once("shop", key, request, submit))[0]
        except Crash:
            return None
        except Problem as problem:
            if problem.kind.name not in ("in-progress", "idempotency-key-reused", "keys-unread"):
                raise
            return None


@pytest.mark.parametrize("first", range(0, int(os.environ.get("RACES", "40")), 20))
async def test_in_every_order_a_key_is_one_message_with_one_answer(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        topic = Topic(random.Random(seed))  # noqa: S311 - the order of events
        orders = defaultdict[str, list[tuple[bytes, FirstReceipt]]](list)
        sides = [Side(topic, tmp_path / str(seed), f"gateway-{number}", orders) for number in range(3)]
        answers = defaultdict[str, list[Any]](list)

        async def client(topic: Topic, sides: list[Side], answers: dict[str, list[Any]]) -> None:
            for _ in range(6):
                key, request = topic.chance.choice(KEYS), REQUESTS[topic.chance.random() < 0.1]
                answer = await topic.chance.choice(sides).ask(key, request)
                if answer is not None:
                    answers[key].append(answer)
                if topic.chance.random() < 0.1:
                    topic.now_ms += PENDING_MS
                await topic.chance.choice(sides).read()

        await asyncio.gather(*(client(topic, sides, answers) for _ in range(4)))

        for key in KEYS:
            assert len(set(orders[key])) <= 1, f"seed {seed}: key {key} is two messages: {orders[key]}"
            assert len({answer.status for answer in answers[key]}) <= 1, f"seed {seed}: key {key} has two answers"
        assert any(answers.values()), f"seed {seed}: no request was answered"
        for side in sides:
            side.store.close()
