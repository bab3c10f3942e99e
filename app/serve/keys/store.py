"""Keys on disk: receipts that were read from the topic, and receipts that could not be written to it.

A million keys a day take some hundred bytes of disk each, and no memory. A lost or damaged store is read again from the
topic; only receipts that could not be written to the topic are lost.
"""

import contextlib
import logging
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import rocksdict

from app.base.process.disk_room import can_reopen
from app.serve.keys.receipt import Answered, Known, Receipt
from app.serve.web.problem import TypedProblem
from tables.database import Database
from tables.errors import StoreCorrupt, StoreUnusable, TableError
from tables.rocksdb_options import common_options

log = logging.getLogger(__name__)

#: How long a key is valid.
DAY_MS: Final = 86_400_000
#: Keys are stored this much longer, because records may be read later than they were written.
_LATE_MS: Final = 3_600_000

_KEY, _TIME, _NEXT, _OWED, _OWED_END = b"k", b"t", b"n", b"o", b"p"
_SWEEP: Final = 500

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Known).decode


class KeysUnwritable(TypedProblem):
    """The disk cannot store keys."""

    type_name = "disk-full"

    def __init__(self, why: object) -> None:
        super().__init__(f"This server cannot store keys on its disk ({why}); try again, or use another server.")


class Written(NamedTuple):
    """A record of the topic: the key's digest, the broker's time of writing, and the receipt or response."""

    digest: bytes
    at_ms: int
    said: Receipt | Answered


class KeyStore:
    """Keys by their digests; only one event loop writes."""

    def __init__(self, path: Path) -> None:
        """Open the store at `path`; a damaged store is deleted and created again. Raises a StoreError."""
        self._path, self._closed = path, False
        #: The error of the last write, "" if it succeeded.
        self.failed = ""
        try:
            self._db = Database(path, _options())
        except StoreCorrupt as error:
            log.warning("%s is damaged (%s). The keys of the last day are read again from Kafka", path, error)
            shutil.rmtree(path)
            self._db = Database(path, _options())

    def close(self) -> None:
        """Close the store; a second call has no effect."""
        if not self._closed:
            self._closed = True
            # On a full disk, the data is in the database's log.
            with contextlib.suppress(StoreUnusable, StoreCorrupt, rocksdict.DbClosedError):
                self._db.close()

    def reopen(self) -> bool:
        """Open the database again after a failed write, after which RocksDB refuses writes; return if it is open."""
        if self.failed and can_reopen(self._path):
            self.close()
            try:
                self._db = Database(self._path, _options())
            except TableError as error:
                self.failed = str(error.__cause__ or error)
            else:
                self.failed, self._closed = "", False
        return not self.failed

    def _write(self, batch: rocksdict.WriteBatch) -> None:
        """Write a batch, whole or not at all. Raises KeysUnwritable."""
        if not self.reopen():
            raise KeysUnwritable(self.failed)
        try:
            self._db.write(batch)
        except (StoreUnusable, StoreCorrupt) as error:
            self.failed = str(error.__cause__ or error)
            log.error(  # noqa: TRY400 - the sentence has it
                "%s cannot be written: %s. Requests with an Idempotency-Key are refused until it can be written.",
                self._path,
                self.failed,
            )
            raise KeysUnwritable(self.failed) from error

    # keys -------------------------------------------------------------------------------------------------------------
    def known(self, digest: bytes, now_ms: int) -> Known | None:
        """Return a known key at a time; None if its day is over, or it is unknown."""
        known = self._get(digest)
        return None if known is None or now_ms - known.since_ms >= DAY_MS else known

    def next_offset(self, partition: int) -> int | None:
        """Return the offset of the next record to read, None if no record was read."""
        raw = self._db.get(_NEXT + partition.to_bytes(4, "big"))
        return None if raw is None else int.from_bytes(raw, "big")

    # from the topic ---------------------------------------------------------------------------------------------------
    def take(self, partition: int, records: Iterable[Written], next_offset: int) -> None:
        """Store the next records of a partition, all or none.

        The first receipt of a key within a day counts, by offset, so that all servers agree. A receipt that was stored
        without the topic counts here until its day is over, because its sender has got a response.
        """
        batch, changed = rocksdict.WriteBatch(raw_mode=True), dict[bytes, Known]()
        for record in records:
            before = changed.get(record.digest) or self._get(record.digest)
            after = _judged(before, record)
            if after is not None:
                self._put(batch, record.digest, after, before)
                changed[record.digest] = after
        batch.put(_NEXT + partition.to_bytes(4, "big"), next_offset.to_bytes(8, "big"))
        self._write(batch)

    # without the topic ------------------------------------------------------------------------------------------------
    def accept(self, digest: bytes, receipt: Receipt) -> None:
        """Store a receipt that could not be written to the topic, and mark it as owed to the topic."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        known = Known.of(receipt, receipt.asked_ms, local=True)
        self._put(batch, digest, known, self._get(digest))
        batch.put(_OWED + digest, b"")
        self._write(batch)

    def answer(self, digest: bytes, answered: Answered, *, owed: bool) -> None:
        """Store a response of this server, and mark it as `owed` if it could not be written to the topic."""
        before = self._get(digest)
        if before is None or not before.is_of(answered) or before.answer is not None:
            return
        batch = rocksdict.WriteBatch(raw_mode=True)
        self._put(batch, digest, msgspec.structs.replace(before, answer=answered.answer), before)
        if owed:
            batch.put(_OWED + digest, b"")
        self._write(batch)

    def owed(self, limit: int, wanted: Callable[[bytes], bool] = lambda _: True) -> list[tuple[bytes, Known]]:
        """Return at most `limit` keys that the topic lacks in part, of the digests that `wanted` accepts."""
        keys = []
        for key in self._db.keys(_OWED, _OWED_END):
            if not wanted(key[1:]):
                continue
            known = self._get(key[1:])
            if known is not None:
                keys.append((key[1:], known))
            if len(keys) == limit:
                break
        return keys

    def paid(self, keys: Iterable[tuple[bytes, Known]]) -> None:
        """Remove the mark from these keys, unless they have changed since they were written."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for digest, written in keys:
            if self._get(digest) == written:
                batch.delete(_OWED + digest)
        self._write(batch)

    # expiry -----------------------------------------------------------------------------------------------------------
    def forget(self, now_ms: int, limit: int = _SWEEP) -> int:
        """Remove at most `limit` keys that expired long ago; return their number."""
        over_ms = now_ms - DAY_MS - _LATE_MS
        if over_ms <= 0:
            return 0
        batch, count = rocksdict.WriteBatch(raw_mode=True), 0
        for key in self._db.keys(_TIME, _TIME + over_ms.to_bytes(8, "big")):
            digest = key[9:]
            batch.delete(key)
            batch.delete(_KEY + digest)
            batch.delete(_OWED + digest)
            count += 1
            if count == limit:
                break
        self._write(batch)
        return count

    # rows -------------------------------------------------------------------------------------------------------------
    def _get(self, digest: bytes) -> Known | None:
        if self._closed:
            raise KeysUnwritable(self.failed)
        try:
            raw = self._db.get(_KEY + digest)
        except StoreUnusable as error:
            raise KeysUnwritable(error.__cause__ or error) from error
        return None if raw is None else _decode(raw)

    def _put(self, batch: rocksdict.WriteBatch, digest: bytes, known: Known, before: Known | None) -> None:
        if before is None or before.since_ms != known.since_ms:
            if before is not None:
                batch.delete(_time_key(before, digest))
            batch.put(_time_key(known, digest), b"")
        batch.put(_KEY + digest, _encode(known))


def _judged(before: Known | None, record: Written) -> Known | None:
    """Return the known key after a record of the topic, None if the record changes no key."""
    said = record.said
    if isinstance(said, Receipt):
        if before is not None and record.at_ms - before.since_ms < DAY_MS:
            return None
        return Known.of(said, record.at_ms)
    if before is None or before.answer is not None or not before.is_of(said):
        return None
    return msgspec.structs.replace(before, answer=said.answer)


def _time_key(known: Known, digest: bytes) -> bytes:
    return _TIME + max(0, known.since_ms).to_bytes(8, "big") + digest


def _options() -> rocksdict.Options:
    """Return options for point reads of a million small rows in little memory."""
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_block_cache(rocksdict.Cache(16 << 20))
    blocks.set_bloom_filter(10, block_based=False)
    options = common_options(8 << 20, open_files=64)
    options.set_block_based_table_factory(blocks)
    options.set_max_write_buffer_number(3)
    return options
