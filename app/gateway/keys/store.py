"""Keys on disk: what this gateway has read of the topic of receipts, and what it has taken without it.

A million keys a day take some hundred bytes of disk each, and no memory. The topic is the truth: a store that is gone
or damaged is read anew; what is lost with it are receipts that could not be written there yet.
"""

import contextlib
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import rocksdict

from app.gateway.keys.errors import KeysUnwritable
from app.gateway.keys.receipt import Answered, Known, Receipt
from app.gateway.spool.disk_room import can_reopen
from tables.database import Database
from tables.errors import StoreCorrupt, StoreUnusable, TableError

log = logging.getLogger(__name__)

#: How long a key is known.
DAY_MS: Final = 86_400_000
#: Records may be read later than they were written: what they are judged by is kept for longer.
_LATE_MS: Final = 3_600_000

_KEY, _TIME, _NEXT, _OWED = b"k", b"t", b"n", b"o"
_SWEEP: Final = 500

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Known).decode


class Written(NamedTuple):
    """A record of the topic as it is judged: the key's digest, the broker's time of writing, and what it says."""

    digest: bytes
    at_ms: int
    said: Receipt | Answered


class KeyStore:
    """Keys by their digests; written by one event loop."""

    def __init__(self, path: Path) -> None:
        """Open the store at `path`, beginning anew if it is damaged.

        Raises a StoreError if the disk does not do what it is asked, or another process has it.
        """
        self._path, self._failed, self._closed = path, "", False
        try:
            self._db = Database(path, _options())
        except StoreCorrupt as error:
            log.warning("%s is damaged (%s). The keys of the last day are read again from Kafka", path, error)
            shutil.rmtree(path)
            self._db = Database(path, _options())

    def close(self) -> None:
        """Close it; harmless when that is done."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(
                StoreUnusable, StoreCorrupt, rocksdict.DbClosedError
            ):  # a full disk: it has what it was to keep in its log
                self._db.close()

    @property
    def failed(self) -> str:
        """Why the last write has failed, empty if it has not."""
        return self._failed

    def reopen(self) -> bool:
        """Open the database again if a write has failed, after which RocksDB takes none. Return whether it is open."""
        if self._failed and can_reopen(self._path):
            self.close()
            try:
                self._db = Database(self._path, _options())
            except TableError as error:
                self._failed = str(error.__cause__ or error)
            else:
                self._failed, self._closed = "", False
        return not self._failed

    def _write(self, batch: rocksdict.WriteBatch) -> None:
        """Write a batch, whole or not at all. Raises KeysUnwritable."""
        if not self.reopen():
            raise KeysUnwritable(self._failed)
        try:
            self._db.write(batch)
        except (StoreUnusable, StoreCorrupt) as error:
            self._failed = str(error.__cause__ or error)
            log.error(  # noqa: TRY400 - the sentence has it
                "%s cannot be written: %s. Requests with an Idempotency-Key are refused until it can be written.",
                self._path,
                self._failed,
            )
            raise KeysUnwritable(self._failed) from error

    # what is known ----------------------------------------------------------------------------------------------------
    def known(self, digest: bytes, now_ms: int) -> Known | None:
        """Return what is known of a key at a moment; None if its day is over, or it was never seen."""
        found = self._get(digest)
        return None if found is None or now_ms - found.since_ms >= DAY_MS else found

    def next_offset(self, partition: int) -> int | None:
        """Return the offset that is to be read next, None if nothing was read."""
        raw = self._db.get(_NEXT + partition.to_bytes(4, "big"))
        return None if raw is None else int.from_bytes(raw, "big")

    # what the topic says ----------------------------------------------------------------------------------------------
    def take(self, partition: int, records: Iterable[Written], next_offset: int) -> None:
        """Take the next records of a partition, all of them or none.

        Of a key's receipts within a day the first one counts, by offset, so that all gateways agree. What was taken
        here without the topic counts here until its day is over: whoever sent it has been answered.
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

    # what is taken without the topic ----------------------------------------------------------------------------------
    def accept(self, digest: bytes, receipt: Receipt) -> None:
        """Take a receipt that could not be written to the topic; it is owed to the topic from now on."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        known = Known.of(receipt, receipt.asked_ms, local=True)
        self._put(batch, digest, known, self._get(digest))
        batch.put(_OWED + digest, b"")
        self._write(batch)

    def answer(self, digest: bytes, answered: Answered, *, owed: bool) -> None:
        """Take an answer of this gateway's own, which is `owed` to the topic if it could not be written there."""
        before = self._get(digest)
        if before is None or not before.is_of(answered) or before.answer is not None:
            return
        batch = rocksdict.WriteBatch(raw_mode=True)
        self._put(batch, digest, msgspec.structs.replace(before, answer=answered.answer), before)
        if owed:
            batch.put(_OWED + digest, b"")
        self._write(batch)

    def owed(self, limit: int, wanted: Callable[[bytes], bool] = lambda _: True) -> list[tuple[bytes, Known]]:
        """Return up to so many keys of which the topic does not know all, of those that are `wanted`."""
        found = []
        for key in self._db.keys(_OWED, _after(_OWED)):
            if not wanted(key[1:]):
                continue
            known = self._get(key[1:])
            if known is not None:
                found.append((key[1:], known))
            if len(found) == limit:
                break
        return found

    def paid(self, keys: Iterable[tuple[bytes, Known]]) -> None:
        """Owe these no more, unless more has become known of them meanwhile."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for digest, written in keys:
            if self._get(digest) == written:
                batch.delete(_OWED + digest)
        self._write(batch)

    # what is forgotten ------------------------------------------------------------------------------------------------
    def forget(self, now_ms: int, limit: int = _SWEEP) -> int:
        """Forget up to so many keys whose day is over for long; return how many."""
        over = now_ms - DAY_MS - _LATE_MS
        if over <= 0:
            return 0
        batch, count = rocksdict.WriteBatch(raw_mode=True), 0
        for key in self._over(over):
            digest = key[9:]
            batch.delete(key)
            batch.delete(_KEY + digest)
            batch.delete(_OWED + digest)
            count += 1
            if count == limit:
                break
        self._write(batch)
        return count

    def _over(self, over_ms: int) -> Iterator[bytes]:
        return self._db.keys(_TIME, _TIME + over_ms.to_bytes(8, "big"))

    # rows -------------------------------------------------------------------------------------------------------------
    def _get(self, digest: bytes) -> Known | None:
        if self._closed:
            raise KeysUnwritable(self._failed)
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
    """Return what is known after a record of the topic, None if it changes nothing."""
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


def _after(prefix: bytes) -> bytes:
    return bytes([prefix[0] + 1])


def _options() -> rocksdict.Options:
    """Return options for point reads of a million small rows in little memory."""
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_block_cache(rocksdict.Cache(16 << 20))
    blocks.set_bloom_filter(10, block_based=False)
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003 - theirs
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(8 << 20)
    options.set_max_write_buffer_number(3)
    options.set_max_open_files(64)
    options.set_keep_log_file_num(2)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    return options
