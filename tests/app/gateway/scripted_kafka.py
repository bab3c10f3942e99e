"""A connection whose broker accepts, delays or refuses batches as a test wants."""

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka.record.memory_records import MemoryRecords

from app.kafka.produce.batch import Ack, Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.kafka.errors import SendError

#: A batch that waits: where it goes, the ids in it, and its answer.
Pending = tuple[str, int, list[str], "asyncio.Future[Ack]"]


class ScriptedKafka:
    """Stands for a connection and its sender."""

    def __init__(self) -> None:
        self.log: dict[tuple[str, int], list[str]] = {}
        self.headers: dict[str, dict[str, bytes]] = {}
        self.pending: list[Pending] = []
        self.is_down, self.batches = False, 0
        #: Returns the error for a batch with these ids, or None.
        self.refuse: Callable[[str, list[str]], SendError | None] = lambda _, __: None
        self.up = True

    async def sender(self) -> Any:
        return self

    def submit(self, topic: str, partition: int, batch: Batch) -> asyncio.Future[Ack]:
        self.batches += 1
        records = list(MemoryRecords(batch.build(-1, -1, -1)).next_batch())
        ids = [dict(record.headers)["delay-id"].decode() for record in records]
        self.headers |= {id_: dict(record.headers) for id_, record in zip(ids, records, strict=True)}
        answer: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        self.pending.append((topic, partition, ids, answer))
        if not self.is_down:
            self.answer()
        return answer

    def answer(self) -> None:
        """Answer the waiting batches."""
        pending, self.pending = self.pending, []
        for topic, partition, ids, answer in pending:
            error = self.refuse(topic, ids)
            if answer.done():  # the sender has given up, but the batch may have been sent
                self._append(topic, partition, ids)
            elif error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(Ack(self._append(topic, partition, ids), 1_000))

    def come_back(self) -> None:
        """Answer the waiting batches, and new batches at once."""
        self.is_down, self.batches = False, 0
        self.answer()

    def _append(self, topic: str, partition: int, ids: list[str]) -> int:
        log = self.log.setdefault((topic, partition), [])
        log += ids
        return len(log) - len(ids)
