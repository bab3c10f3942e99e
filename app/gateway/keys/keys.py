"""Carries out a request once for its key, whichever gateways it comes to.

The gateway writes a receipt to the topic and reads that itself: of a key's receipts the first one by offset counts, for
all gateways. The message's id follows from the key and the request, its due time from the first receipt's, so that
whoever completes a request that its gateway has not completed asks for the same message again: the same id, due at the
same time, which is recognised. docs/how-to/gateway-tokens.md says what can happen while Kafka is down.
"""

import asyncio
import contextlib
import logging
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

from app.gateway.keys.digests import FirstReceipt, id_seed, key_digest
from app.gateway.keys.errors import KeyInProgress, KeyReused, KeysUnread, KeysUnwritable
from app.gateway.keys.follower import ReceiptFollower
from app.gateway.keys.receipt import Answered, GivenAnswer, Known, Receipt, encode
from app.gateway.keys.store import KeyStore
from app.gateway.keys.writer import PATIENCE_S, ReceiptWriter
from app.gateway.spool.disk_room import FREE_BYTES, DiskRoom
from app.kafka.errors import SendError
from punctual.contract.home import key_partition

log = logging.getLogger(__name__)

#: For so long a receipt is left to the gateway that wrote it. Longer than a gateway takes to answer: who is late
#: is not wrong, but the same message is then asked for twice.
PENDING_MS: Final = 10_000
_OWED: Final = 500
_SWEEP_S, _PAY_S = 60.0, 0.5


#: Carries a request out; returns the answer, and whether it stays the same when the request comes again.
Submit = Callable[[FirstReceipt], Awaitable[tuple[GivenAnswer, bool]]]


class Keys:
    """The keys of one gateway."""

    def __init__(
        self, gateway: str, store: KeyStore, follower: ReceiptFollower, now_ms: Callable[[], int], room: DiskRoom
    ) -> None:
        """Know what is in the store; `gateway` is the name of its data directory: what it has begun is ours alone."""
        self._gateway, self._store, self._follower, self._room = gateway, store, follower, room
        self._now_ms = now_ms
        self._writer: ReceiptWriter | None = None
        self._connected = asyncio.Event()
        self._busy = set[bytes]()

    def unread(self) -> str | None:
        """Return why keys cannot be judged yet; None if they can, or if Kafka is down and they are judged without."""
        follower = self._follower
        down = follower.begun.is_set() and not follower.connected
        return None if follower.caught_up.is_set() or down else "the gateway is still reading its idempotency keys"

    def unwritable(self) -> str | None:
        """Return why the disk takes no key; None if it does."""
        if not self._room.enough():
            return f"less than {FREE_BYTES >> 20} MiB of disk are free, so requests with an Idempotency-Key are refused"
        failed = self._store.failed
        return f"the disk cannot store idempotency keys: {failed}" if failed else None

    def connected(self, writer: ReceiptWriter) -> None:
        """Write to the topic by a writer from now on."""
        self._writer = writer
        self._connected.set()

    async def once(self, scope: str, key: str, request: bytes, submit: Submit) -> tuple[GivenAnswer, bool]:
        """Have `submit` carry out a request, unless its key has been answered; return the answer and whether it is old.

        `scope` is whose key it is, `request` the request's digest. An answer that `submit` says does not stay is not
        kept: the same request is carried out when it comes again. Raises a KeyRefused, and what `submit` raises.
        """
        digest = key_digest(scope, key)
        if digest in self._busy:
            self._same(self._store.known(digest, self._now_ms()), request)
            raise KeyInProgress(1)
        self._busy.add(digest)
        try:
            first = self._store.known(digest, self._now_ms())
            if first is None or first.answer is None:
                self._check_disk()
            if first is None:
                first = await self._receive(digest, Receipt(request, self._gateway, self._now_ms()))
            self._same(first, request)
            if first.answer is not None:
                return first.answer, True
            if first.gateway != self._gateway:
                self._leave_to_its_gateway(first)
            answer, stays = await submit(FirstReceipt(id_seed(digest, request), first.asked_ms))
            if stays:
                answer = await self._answer(digest, first, answer)
            return answer, False
        finally:
            self._busy.discard(digest)

    async def run(self) -> None:
        """Write to the topic what it does not know, and forget what is over, until cancelled."""
        loop = asyncio.get_running_loop()
        swept_s = loop.time()
        while True:
            if self._store.reopen():
                with contextlib.suppress(KeysUnwritable):  # the store has said so
                    await self.pay()
                    if loop.time() - swept_s > _SWEEP_S and not self._store.forget(self._now_ms()):
                        swept_s = loop.time()
            await asyncio.sleep(_PAY_S)

    async def pay(self) -> int:
        """Write to the topic what was taken without it, if it takes it; return how many keys."""
        writer = self._writer
        if writer is None or not self._follower.partitions:
            return 0
        owed = defaultdict[int, list[tuple[bytes, Known]]](list)
        for digest, known in self._store.owed(_OWED, lambda digest: not writer.down(self._at(digest))):
            owed[self._at(digest)].append((digest, known))
        return sum(await asyncio.gather(*(self._pay(writer, number, keys) for number, keys in owed.items())))

    async def _pay(self, writer: ReceiptWriter, number: int, owed: list[tuple[bytes, Known]]) -> int:
        """Write what one partition does not know; the others do not wait for one that is down."""
        said = [(digest, one) for digest, known in owed for one in (known.receipt, known.answered) if one is not None]
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(writer.write(number, digest, encode(one)) for digest, one in said))
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
            raise KeyReused

    def _check_disk(self) -> None:
        """Refuse a key that the disk would not take before anything is done. Raises KeysUnwritable."""
        why = self.unwritable()
        if why is not None:
            raise KeysUnwritable(why)

    def _leave_to_its_gateway(self, first: Known) -> None:
        left_ms = first.since_ms + PENDING_MS - self._now_ms()
        if left_ms > 0:
            raise KeyInProgress(min(math.ceil(left_ms / 1000), PENDING_MS // 1000))

    async def _receive(self, digest: bytes, receipt: Receipt) -> Known:
        """Write a receipt; return the key's first one, which is another if another gateway was earlier.

        Of a key that cannot be checked while Kafka is down, this one is.
        """
        offset = await self._written(digest, receipt)
        if offset is None:
            self._store.accept(digest, receipt)
        else:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._follower.passed(self._at(digest), offset)
            except TimeoutError:
                raise KeysUnread(1) from None
        first = self._store.known(digest, self._now_ms())
        return Known.of(receipt, receipt.asked_ms) if first is None else first

    async def _written(self, digest: bytes, said: Receipt | Answered) -> int | None:
        """Write a record; return its offset, None if Kafka does not take it soon."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                writer = await self._begun()
                if writer is None or writer.down(self._at(digest)):
                    return None
                return await writer.write(self._at(digest), digest, encode(said))
        except TimeoutError:
            return None
        except SendError as error:
            log.warning("Kafka did not accept an idempotency key, so only this gateway knows it: %s", error)
            return None

    async def _begun(self) -> ReceiptWriter | None:
        """Return what writes, None if brokers are down; waits until a gateway that starts has asked them."""
        await self._follower.begun.wait()
        if not self._follower.partitions:
            return None
        await self._connected.wait()
        return self._writer

    async def _answer(self, digest: bytes, first: Known, answer: GivenAnswer) -> GivenAnswer:
        """Keep an answer, with the topic if it takes it, before it is given; return the first one that there was.

        That is this one, unless others may have taken the request over meanwhile, or it was.
        """
        answered = Answered(first.gateway, first.asked_ms, answer)
        offset = await self._written(digest, answered)
        alone = first.gateway == self._gateway and self._now_ms() - first.since_ms < PENDING_MS // 2
        if offset is not None and not alone:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._follower.passed(self._at(digest), offset)
        try:
            self._store.answer(digest, answered, owed=offset is None)
            known = self._store.known(digest, self._now_ms())
        except KeysUnwritable:  # if it comes again, the same message is asked for, which is recognised
            return answer
        return answer if known is None or known.answer is None else known.answer
