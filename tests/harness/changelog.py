"""Reads a changelog, and writes batches to it as a zombie could."""

from collections.abc import Sequence
from typing import Protocol

from tables import keys
from tables.entry import decode
from tests.harness.kafka import Record, Requests, read

Words = dict[bytes, bytes | None]


class Of(Protocol):
    """The changelog's cluster and installation."""

    bootstrap: str
    app_id: str


class Changelog:
    """One partition of an installation's changelog."""

    def __init__(self, of: Of, partition: int) -> None:
        self._bootstrap, self.partition = of.bootstrap, partition
        self.topic = f"{of.app_id}-delays-changelog"

    def records(self) -> list[Record]:
        """Return all records, in their order."""
        return [record for record in read(self._bootstrap, self.topic) if record.partition == self.partition]

    def words(self) -> list[tuple[bytes, bytes | None]]:
        """Return the keys and values of all records, in their order."""
        return [(record.key or b"", record.value) for record in self.records()]

    def last(self) -> Words:
        """Return the last value of each key, as after compaction."""
        return dict(self.words())

    def row(self, id_: str) -> tuple[bytes, bytes]:
        """Return the last row that was written for an id, even if it was deleted later."""
        written = ((key, value) for key, value in self.words() if keys.is_row(key) and value is not None)
        return [(key, value) for key, value in written if decode(value).id == id_][-1]

    @property
    def epoch(self) -> int:
        """The highest epoch of a writer."""
        stamps = (value for key, value in self.words() if key == keys.WRITER)
        return max(int.from_bytes(value or b"", "big") for value in stamps)

    def append(self, epoch: int, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write one batch, as a worker of this epoch would."""
        # Lingering puts them into one batch.
        writer = Requests(self._bootstrap, self.topic, **{"linger.ms": 200})
        for key, value in [(keys.WRITER, keys.long_bytes(epoch)), *records]:
            writer.send({}, key, value, partition=self.partition, topic=self.topic)
        writer.flush()


def rows_of(bootstrap: str, topic: str) -> dict[bytes, bytes]:
    """Return the rows of a changelog that wait, by their keys, as their last words have them."""
    last = {(record.partition, record.key or b""): record.value for record in read(bootstrap, topic)}
    return {key: value for (_, key), value in last.items() if keys.is_row(key) and value is not None}
