"""Executes a request once for its key, even if it arrives at several workers and gateways.

A worker or gateway writes a receipt to the topic and reads it back: the first receipt of a key by offset counts, for
all of them. The message's ID follows from the key and the request, its due time from the first receipt. So a server
that completes another's request schedules the same message again, with the same ID and due time, and the duplicate is
recognised. docs/how-to/idempotency-keys.md has the cases in which Kafka is down.
"""

import asyncio
import contextlib
import logging
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

from app.base.process.disk_room import FREE_BYTES, DiskRoom
from app.kafka.errors import SendError
from app.serve.keys.follower import PATIENCE_S, ReceiptFollower, ReceiptWriter
from app.serve.keys.receipt import Answered, FirstReceipt, GivenAnswer, Known, Receipt, encode, id_seed, key_digest
from app.serve.keys.store import KeyStore, KeysUnwritable
from app.serve.web.problem import Problem
from punctual.contract.home import key_partition

log = logging.getLogger(__name__)

#: How long a request is left to the server that wrote its receipt, longer than it usually takes to answer. If it is
#: slower, the same message is scheduled twice, and recognised.
PENDING_MS: Final = 10_000
_OWED: Final = 500
_SWEEP_S, _PAY_S = 60.0, 0.5
_IN_PROGRESS: Final = "The first request with this Idempotency-Key is still in progress; try again for its answer."
#: Executes a request; returns the response, and whether it is final, that is, the same when the request is repeated.
Submit = Callable[[FirstReceipt], Awaitable[tuple[GivenAnswer, bool]]]


class Keys:
    """The idempotency keys of one worker or gateway."""

    def __init__(
        self,
        name: str,
        store: KeyStore,
        follower: ReceiptFollower,
        now_ms: Callable[[], int],
        room: DiskRoom,
        *,
        without_kafka: bool,
    ) -> None:
        """Mark this server's receipts with `name`; `without_kafka` says whether requests succeed without Kafka."""
        self._name, self._without_kafka = name, without_kafka
        self._store, self._follower, self._now_ms, self._room = store, follower, now_ms, room
        self._writer: ReceiptWriter | None = None
        self._connected = asyncio.Event()
        self._busy = set[bytes]()

    def unread(self) -> str | None:
        """Return why keys cannot be checked yet; None if they can, or if Kafka is down and the store must do."""
        follower = self._follower
        down = follower.begun.is_set() and not follower.connected
        return None if follower.caught_up.is_set() or down else "idempotency keys are still being read"

    def unwritable(self) -> str | None:
        """Return why the disk cannot store keys; None if it can."""
        if not self._room.enough():
            return f"less than {FREE_BYTES >> 20} MiB of disk are free, so requests with an Idempotency-Key are refused"
        failed = self._store.failed
        return f"the disk cannot store idempotency keys: {failed}" if failed else None

    def connected(self, writer: ReceiptWriter) -> None:
        """Write to the topic with `writer` from now on."""
        self._writer = writer
        self._connected.set()

    async def once(self, scope: str, key: str, request: bytes, submit: Submit) -> tuple[GivenAnswer, bool]:
        """Execute a request with `submit` unless its key has a response; return the response and whether it is old.

        `scope` is the key's owner, `request` the request's digest. A response that `submit` reports as not final is not
        stored: the request is executed again when it is repeated. Raises Problem, and the errors of `submit`.
        """
        digest = key_digest(scope, key)
        if digest in self._busy:
            self._same(self._store.known(digest, self._now_ms()), request)
            raise Problem("in-progress", _IN_PROGRESS)
        self._busy.add(digest)
        try:
            first = self._store.known(digest, self._now_ms())
            if first is None or first.answer is None:
                why = self.unwritable()
                if why is not None:  # before the request has any effect
                    raise KeysUnwritable(why)
            if first is None:
                first = await self._receive(digest, Receipt(request, self._name, self._now_ms()))
            self._same(first, request)
            if first.answer is not None:
                return first.answer, True
            if first.gateway != self._name:
                self._leave_to_its_server(first)
            answer, stays = await submit(FirstReceipt(id_seed(digest, request), first.asked_ms))
            if stays:
                answer = await self._answer(digest, first, answer)
            return answer, False
        finally:
            self._busy.discard(digest)

    async def run(self) -> None:
        """Write keys that the topic lacks, and forget expired keys, until cancelled."""
        loop = asyncio.get_running_loop()
        swept_s = loop.time()
        while True:
            if self._store.reopen():
                with contextlib.suppress(KeysUnwritable):  # the store has logged it
                    await self.pay()
                    if loop.time() - swept_s > _SWEEP_S and not self._store.forget(self._now_ms()):
                        swept_s = loop.time()
            await asyncio.sleep(_PAY_S)

    async def pay(self) -> int:
        """Write keys that were stored while Kafka was down to the topic; return their number."""
        writer = self._writer
        if writer is None or not self._follower.partitions:
            return 0
        owed = defaultdict[int, list[tuple[bytes, Known]]](list)
        for digest, known in self._store.owed(_OWED, lambda digest: not writer.down(self._at(digest))):
            owed[self._at(digest)].append((digest, known))
        return sum(await asyncio.gather(*(self._pay(writer, number, keys) for number, keys in owed.items())))

    async def _pay(self, writer: ReceiptWriter, number: int, owed: list[tuple[bytes, Known]]) -> int:
        """Write the missing keys of one partition; other partitions do not wait if it is down."""
        records = [(digest, one) for digest, known in owed for one in known.records]
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(writer.write(number, digest, encode(one)) for digest, one in records))
        except TimeoutError:
            return 0
        except SendError as error:
            log.warning("idempotency keys that were stored while Kafka was down cannot be written: %s", error)
            return 0
        self._store.paid(owed)
        return len(owed)

    def _at(self, digest: bytes) -> int:
        return key_partition(digest, self._follower.partitions)

    @staticmethod
    def _same(first: Known | None, request: bytes) -> None:
        if first is not None and first.request != request:
            sentence = "This Idempotency-Key was used for another request within the last day; use a new key."
            raise Problem("idempotency-key-reused", sentence)

    def _leave_to_its_server(self, first: Known) -> None:
        """Raise Problem while the server that wrote a receipt may still execute its request."""
        left_ms = first.since_ms + PENDING_MS - self._now_ms()
        if left_ms > 0:
            wait_s = min(math.ceil(left_ms / 1000), PENDING_MS // 1000)
            raise Problem("in-progress", _IN_PROGRESS, headers={"Retry-After": str(wait_s)})

    async def _receive(self, digest: bytes, receipt: Receipt) -> Known:
        """Write a receipt; return the key's first receipt, which may be an earlier one of another server.

        If the key cannot be checked because Kafka is down, this receipt counts if the request can succeed then;
        otherwise this raises Problem.
        """
        offset = await self._written(digest, receipt)
        if offset is None and not self._without_kafka:
            sentence = "Kafka has not stored the idempotency key, so nothing was done; try again."
            raise Problem("kafka-unavailable", sentence)
        if offset is None:
            self._store.accept(digest, receipt)
        else:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._follower.passed(self._at(digest), offset)
            except TimeoutError:
                sentence = "This server has not read all idempotency keys yet; try again, or use another server."
                raise Problem("keys-unread", sentence) from None
        first = self._store.known(digest, self._now_ms())
        return Known.of(receipt, receipt.asked_ms) if first is None else first

    async def _written(self, digest: bytes, record: Receipt | Answered) -> int | None:
        """Write a record; return its offset, or None if Kafka does not accept it soon."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                writer = await self._begun()
                if writer is None or writer.down(self._at(digest)):
                    return None
                return await writer.write(self._at(digest), digest, encode(record))
        except TimeoutError:
            return None
        except SendError as error:
            log.warning("Kafka did not accept an idempotency key, so only this server knows it: %s", error)
            return None

    async def _begun(self) -> ReceiptWriter | None:
        """Return the writer, or None if brokers are down; at the start, wait for their answer."""
        await self._follower.begun.wait()
        if not self._follower.partitions:
            return None
        await self._connected.wait()
        return self._writer

    async def _answer(self, digest: bytes, first: Known, answer: GivenAnswer) -> GivenAnswer:
        """Store a response, in the topic if possible, before it is returned; return the key's first response.

        That is this response, unless another server has completed the request first.
        """
        answered = Answered(first.gateway, first.asked_ms, answer)
        offset = await self._written(digest, answered)
        alone = first.gateway == self._name and self._now_ms() - first.since_ms < PENDING_MS // 2
        if offset is not None and not alone:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._follower.passed(self._at(digest), offset)
        try:
            self._store.answer(digest, answered, owed=offset is None)
            known = self._store.known(digest, self._now_ms())
        except KeysUnwritable:  # if it is repeated, the same message is scheduled, and recognised
            return answer
        return answer if known is None or known.answer is None else known.answer
