"""The changelog as a store may find it: cut into chunks, and compacted as brokers do."""

from collections.abc import Sequence

from hypothesis import strategies as st

from tables import PartitionStore
from tests.tables.rows import NOW

KeyValue = tuple[bytes, bytes | None]


def compacted(log: Sequence[KeyValue], clean: int, *, drop_tombstones: bool) -> list[KeyValue]:
    """Return the log with only the last record of each key before offset `clean`, and all records after it."""
    last = {key: number for number, (key, _) in enumerate(log[:clean])}
    head = [log[number] for number in sorted(last.values())]
    return [item for item in head if not (drop_tombstones and item[1] is None)] + list(log[clean:])


def cut(data: st.DataObject, records: Sequence[KeyValue]) -> list[Sequence[KeyValue]]:
    """Cut records into chunks at any places."""
    places = sorted(data.draw(st.sets(st.integers(0, len(records)), max_size=4), label="cut at"))
    return [records[begin:end] for begin, end in zip([0, *places], [*places, len(records)], strict=True)]


def replay(store: PartitionStore, chunks: Sequence[Sequence[KeyValue]], offset: int) -> None:
    """Read chunks into a store, as recovery does."""
    for chunk in chunks:
        offset += len(chunk)
        store.replay(chunk, offset, NOW)
