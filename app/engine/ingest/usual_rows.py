"""The rows of plain requests, many at a time: what the kernel does (tables/compiled.py), in Python."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from punctual.contract.events import Event, encode
from punctual.contract.home import home_partition
from punctual.contract.plain_requests import read_plain
from punctual.contract.record import Record
from tables import keys
from tables.commands import UNKNOWN_MS
from tables.entry import encode_plain
from tables.keys import row_key

#: What a row takes of a step beside its value.
_OVERHEAD = 32

Found = tuple[
    int, int, int, list[str], list[bytes], list[bytes], list[bytes], list[tuple[bytes, bytes]], list[str]
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rules:
    """What does not change for an input topic of one partition."""

    topic: str
    partition: int
    crc: int
    inputs: Sequence[str]
    partitions: int
    largest_row: int


def requests(  # noqa: PLR0913, PLR0917 - as the kernel's
    rules: Rules,
    records: Sequence[Record],
    begin: int,
    end: int,
    base: int,
    allowed: Collection[str],
    stamp_ms: int,
    latest_ms: int,
    furthest_ms: int,
    now_ms: int,
    room: int,
) -> Found:
    """Return what the longest prefix of plain requests among `records[begin:end]` becomes.

    That is how many these are, the stamp of the last, the bytes of all, their ids, the ids' keys, the rows' keys and
    values, events, and where they go. It ends where all of it has `room` bytes.
    """
    topic, partition, crc, largest = rules.topic, rules.partition, rules.crc, rules.largest_row
    inputs, partitions, id_kind, place = rules.inputs, rules.partitions, keys.ID, f"{topic}-{partition}-"
    size, ids, tos = 0, dict[str, None](), dict[str, None]()
    id_keys, row_keys, rows, told = list[bytes](), list[bytes](), list[bytes](), list[tuple[bytes, bytes]]()
    for record in records[begin:end]:
        own_ms, offset = record.timestamp, record.offset + base
        if not 0 <= own_ms <= latest_ms or record.partition != partition or record.topic != topic:
            break
        asked = read_plain(record.headers)
        if asked is None:
            break
        id_, to, due_ms, users = asked
        if to not in allowed or due_ms > furthest_ms or "/" in to:
            break
        source, read_ms = f"{place}{offset}", own_ms if own_ms > stamp_ms else stamp_ms  # noqa: FURB136
        if id_ is None or id_ == source:
            id_, raw_id, order_ms = source, source.encode(), UNKNOWN_MS
        else:
            raw_id, order_ms = id_.encode(), read_ms
            if home_partition(raw_id, inputs, partitions) != partition:
                break
        row = encode_plain(id_, to, record.key, record.value, users, source, order_ms)
        if len(row) > largest or id_ in ids:
            break
        stamp_ms = read_ms
        ids[id_] = tos[to] = None
        id_keys.append(id_kind + raw_id)
        row_keys.append(row_key(due_ms, offset, crc))
        rows.append(row)
        told.append((raw_id, encode(Event("accepted", id_, now_ms, source, due_ms, to))))
        size += len(row) + _OVERHEAD
        if size >= room:
            break
    return len(rows), stamp_ms, size, [*ids], id_keys, row_keys, rows, told, [*tos]
